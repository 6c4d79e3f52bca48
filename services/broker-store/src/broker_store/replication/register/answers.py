"""What JetStream answers to the requests of a register, as far as it matters. Pure."""

from typing import TypeVar

import msgspec

STREAM_NOT_FOUND = 10059
NO_MESSAGE_FOUND = 10037
STREAM_EXISTS = 10058
"""With another configuration; one with the same is no error."""


class Unreadable(ValueError):
    """An answer has another form than JetStream's."""


class Error(msgspec.Struct, frozen=True):
    """An error of JetStream. `err_code` is stable, `description` is for people."""

    code: int
    err_code: int = 0
    description: str = ""

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.description} ({self.err_code})"


class Message(msgspec.Struct, frozen=True):
    """A stored message."""

    seq: int
    data: bytes = b""


class MessageAnswer(msgspec.Struct, frozen=True):
    """Answer of STREAM.MSG.GET."""

    error: Error | None = None
    message: Message | None = None


class Acknowledged(msgspec.Struct, frozen=True):
    """Answer to a published record: its sequence, or an error."""

    error: Error | None = None
    stream: str = ""
    seq: int = 0


class State(msgspec.Struct, frozen=True):
    """The sequences of a stream."""

    messages: int = 0
    last_seq: int = 0


class Peer(msgspec.Struct, frozen=True):
    """A follower of a stream's leader."""

    name: str
    current: bool = False
    offline: bool = False
    lag: int = 0


class Cluster(msgspec.Struct, frozen=True):
    """The servers that keep a stream."""

    leader: str = ""
    replicas: tuple[Peer, ...] = ()


class StreamAnswer(msgspec.Struct, frozen=True):
    """Answer of STREAM.INFO, STREAM.CREATE and STREAM.LEADER.STEPDOWN."""

    error: Error | None = None
    config: dict[str, object] = msgspec.field(default_factory=dict[str, object])
    state: State = State()
    cluster: Cluster = Cluster()


AnyAnswer = TypeVar("AnyAnswer", MessageAnswer, Acknowledged, StreamAnswer)


def read_answer(payload: bytes, kind: type[AnyAnswer]) -> AnyAnswer:
    """Return an answer. Raises Unreadable."""
    try:
        return msgspec.json.decode(payload, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"an answer of JetStream is not understood: {error}") from error
