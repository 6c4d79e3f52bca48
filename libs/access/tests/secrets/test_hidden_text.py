"""Hidden texts compare by content and show it to `reveal` only."""

import pytest

from gantry_access.secrets.hidden_text import HiddenText


def test_only_reveal_returns_the_text():
    hidden = HiddenText("12345678")
    assert hidden.reveal() == "12345678"
    assert "12345678" not in f"{hidden} {hidden!r} {[hidden]}"


def test_equal_texts_are_equal():
    assert HiddenText("a") == HiddenText("a")
    assert HiddenText("a") != HiddenText("b")
    assert HiddenText("a") != "a"


def test_a_hidden_text_is_no_key_of_a_table():
    with pytest.raises(TypeError):
        hash(HiddenText("a"))
