"""No control character of an untrusted message reaches the terminal."""

import io
import json

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.cli.screen import Screen
from gantrymq.cli.shapes import message_fields, message_line

TEXT = st.one_of(
    st.text(max_size=20), st.sampled_from(["\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "a\rb", "\u202e", "x"])
)


def message_of(tag: str, keys: list[str], body: str, value: str) -> dict[str, object]:
    return {
        "storeTimestamp": "2026-01-01T00:00:00.000Z", "bornTimestamp": "2026-01-01T00:00:00.000Z", "broker": "broker-a", "queueId": 0,
        "queueOffset": 1, "tag": tag, "keys": keys, "body": body, "properties": {"p": value}, "topic": "t", "messageId": "m",
        "offsetMessageId": "o", "bornHost": "127.0.0.1:1", "reconsumeTimes": 0,
    }  # fmt: skip


@given(TEXT, st.lists(TEXT, max_size=3), TEXT, TEXT)
def test_no_control_character_of_a_message_reaches_the_screen(tag, keys, body, value):
    message = message_of(tag, keys, body, value)
    line = message_line(message, lambda text, _colour: text)
    assert line.isprintable()
    out = io.StringIO()
    screen = Screen(as_json=False, out=out)
    screen.fields(message_fields(message))
    screen.table(("tag", "keys"), [(tag, keys)])
    assert out.getvalue().replace("\n", "").replace("\t", "").isprintable()


@given(TEXT)
def test_json_escapes_control_characters(text):
    out = io.StringIO()
    Screen(as_json=True, out=out).json({"text": text})
    written = out.getvalue()
    assert json.loads(written) == {"text": text}
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in written[:-1])
