"""Which reasons allow."""

from gantry_access.evaluation.verdicts import Reason, Verdict


def test_three_reasons_allow_and_all_others_refuse():
    assert {reason for reason in Reason if Verdict(reason).is_allowed} == {
        Reason.SUPER_USER,
        Reason.INNER_USER,
        Reason.ALLOWED,
    }


def test_a_verdict_without_a_rule_names_none():
    assert all(Verdict(reason).deciding is None for reason in Reason)
