"""Builders that read as the texts of administrators."""

from gantry_access.evaluation.state import AccessState
from gantry_access.model.actions import Action
from gantry_access.model.needs import Need
from gantry_access.model.networks import SourceAddress, SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User

HERE = SourceAddress.parse("10.0.0.5")


def entry(text):
    """An entry of a text such as `Allow Pub,Sub Topic:a* 10.0.0.0/8`."""
    decision, actions, resource, *networks = text.split()
    return PolicyEntry(
        Resource.parse(resource),
        Action.parse_all(actions.split(",")),
        Decision(decision),
        tuple(map(SourceNetwork.parse, networks)),
    )


def entries(*texts):
    return tuple(map(entry, texts))


def need(text):
    """A need of a text such as `Sub,Get Topic:a`."""
    actions, resource = text.split()
    return Need(Resource.parse(resource), Action.parse_all(actions.split(",")))


def state(*custom, default=(), **user):
    """The state of the user alice with these entries."""
    policies = SubjectPolicies(Subject("alice"), entries(*custom), entries(*default))
    return AccessState.of([User("alice", **user)], [policies])
