"""The Telemetry stream: clients' settings and the answers to them, and commands for clients.

The server never ends a stream while its client is there: Python's client opens no other one for minutes. A refusal is a command with nothing
but its status.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final

from google.protobuf.message import DecodeError

from gantry_link.grpc.calls import Stream
from gantry_link.grpc.status import GrpcError
from gateway.grpc.calls import Admit, Caller, Calls, caller_of, read_caller
from gateway.grpc.clients import TOPICS_MAX, Clients
from gateway.grpc.codes import Refused, status
from gateway.grpc.names import full_name
from gateway.grpc.proto.bounded import TooManyFields, parse
from gateway.grpc.proto.enums import ClientType, Code
from gateway.grpc.proto.message import Message
from gateway.grpc.proto.settings import Settings
from gateway.grpc.proto.telemetry import (
    PrintThreadStackTraceCommand,
    TelemetryCommand,
    VerifyMessageCommand,
)
from gateway.grpc.telemetry.group_settings import KnownGroups
from gateway.grpc.telemetry.settings_answers import consumer_settings, producer_settings

METHOD: Final = "Telemetry"
WAITING_MAX: Final = 1000
"""Commands that wait for a client to read."""
WAITING_BYTES_MAX: Final = 16 * 1024 * 1024
"""Their bytes, if they are more than one: each check has the body of its message."""
COMMAND_BYTES_MAX: Final = 1024 * 1024
"""Of a client: its settings are in the answer again."""
ANSWER_SECONDS: Final = 5.0
"""How long a client may take to answer a command."""
_RIGHTLESS: Final = frozenset({int(Code.UNAUTHORIZED), int(Code.FORBIDDEN)})


class TelemetryStream:
    """One stream. Commands leave it in order, as the client takes them."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(WAITING_MAX)
        self._waiting_bytes = 0

    def push(self, command: TelemetryCommand) -> bool:
        """Have a command written; False if too many wait already."""
        data = command.SerializeToString()
        is_much = self._waiting_bytes > 0 and self._waiting_bytes + len(data) > WAITING_BYTES_MAX
        if is_much or self._waiting.full():
            return False
        self._waiting.put_nowait(data)
        self._waiting_bytes += len(data)
        return True

    async def answer(self, command: TelemetryCommand) -> None:
        """Write an answer; return when it and all before it have left: nothing more is read from a client that does not read."""
        data = command.SerializeToString()
        self._waiting_bytes += len(data)
        await self._waiting.put(data)
        await self._waiting.join()

    async def write(self) -> None:
        """Write what waits, until the end of the call."""
        with suppress(GrpcError):
            while True:
                data = await self._waiting.get()
                await self._stream.send(data)
                self._waiting_bytes -= len(data)
                self._waiting.task_done()


class Commands:
    """Questions to clients, and their answers by nonce."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._nonces = count(1)
        self._open: dict[str, tuple[str, asyncio.Future[TelemetryCommand]]] = {}

    async def stack_trace(self, client_id: str) -> str:
        """Return the stack traces of a client. Raises Refused if it is not connected, refuses, or does not answer."""

        def command(nonce: str) -> TelemetryCommand:
            return TelemetryCommand(
                print_thread_stack_trace_command=PrintThreadStackTraceCommand(nonce=nonce)
            )

        return (await self._ask(client_id, command)).thread_stack_trace.thread_stack_trace

    async def verify(self, client_id: str, message: Message) -> None:
        """Have a consumer consume a message. Raises Refused as `stack_trace`, and with the client's code if consuming failed."""

        def command(nonce: str) -> TelemetryCommand:
            return TelemetryCommand(verify_message_command=VerifyMessageCommand(nonce=nonce, message=message))

        await self._ask(client_id, command)

    def answered(self, client_id: str, nonce: str, answer: TelemetryCommand) -> None:
        """Take a client's answer; one that nobody waits for is ignored."""
        asked, waiting = self._open.get(nonce, ("", None))
        if waiting is not None and asked == client_id and not waiting.done():
            waiting.set_result(answer)

    async def _ask(self, client_id: str, command: Callable[[str], TelemetryCommand]) -> TelemetryCommand:
        nonce = str(next(self._nonces))
        waiting: asyncio.Future[TelemetryCommand] = asyncio.get_running_loop().create_future()
        self._open[nonce] = client_id, waiting
        try:
            if not self._clients.push(client_id, command(nonce)):
                raise Refused(Code.NOT_FOUND, f"client {client_id} is not connected")
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await waiting
        except TimeoutError:
            raise Refused(Code.REQUEST_TIMEOUT, f"client {client_id} does not answer") from None
        finally:
            del self._open[nonce]
        if answer.HasField("status") and answer.status.code != Code.OK:
            code = _code(answer.status.code)
            raise Refused(code, answer.status.message or code.name)
        return answer


class Telemetry:
    """Serves the streams."""

    def __init__(
        self, calls: Calls, admit: Admit, clients: Clients, groups: KnownGroups, commands: Commands
    ) -> None:
        self._calls, self._admit, self._clients = calls, admit, clients
        self._groups, self._commands = groups, commands

    async def serve(self, stream: Stream) -> None:
        """Serve one stream until its client ends it."""
        outgoing = TelemetryStream(stream)
        client_id = read_caller(stream.info).client_id
        writing = asyncio.ensure_future(outgoing.write())
        try:
            while (data := await stream.receive()) is not None:
                started = self._calls.now()
                answer = await self._answer(stream, outgoing, data)
                if answer is not None:
                    await outgoing.answer(answer)
                self._calls.count(METHOD, Code.OK if answer is None else answer.status.code, started)
        finally:
            writing.cancel()
            self._clients.closed(client_id, outgoing)

    async def _answer(
        self, stream: Stream, outgoing: TelemetryStream, data: bytes
    ) -> TelemetryCommand | None:
        try:
            if len(data) > COMMAND_BYTES_MAX:
                raise Refused(Code.PAYLOAD_TOO_LARGE, f"a command may have {COMMAND_BYTES_MAX} bytes")
            command = parse(TelemetryCommand, data)
            user = self._admit(METHOD, read_caller(stream.info), command)
            return await self._take(caller_of(stream.info), user, outgoing, command)
        except asyncio.CancelledError:
            raise
        except (DecodeError, TooManyFields):
            return TelemetryCommand(status=status(Code.BAD_REQUEST, "the command cannot be read"))
        except Exception as error:  # noqa: BLE001 - a stream must not end because of one command
            failed = self._calls.failure(METHOD, error)
            if failed.code in _RIGHTLESS:  # no checks any more: they hold messages
                self._clients.closed(read_caller(stream.info).client_id, outgoing)
            return TelemetryCommand(status=failed)

    async def _take(
        self, caller: Caller, user: str, outgoing: TelemetryStream, command: TelemetryCommand
    ) -> TelemetryCommand | None:
        client = self._clients.seen(caller.client_id, caller.language, user)
        match command.WhichOneof("command"):
            case "settings":
                settings = command.settings
                described = _described(caller, settings)
                answer = await self._settings(caller, settings)
                if self._clients.get(client.id) is not client:  # it has left meanwhile
                    client = self._clients.seen(caller.client_id, caller.language, user)
                self._clients.describe(client, *described)
                self._clients.opened(client, outgoing)
                return TelemetryCommand(status=status(Code.OK), settings=answer)
            case "thread_stack_trace":
                self._commands.answered(caller.client_id, command.thread_stack_trace.nonce, command)
            case "verify_message_result":
                self._commands.answered(caller.client_id, command.verify_message_result.nonce, command)
            case "verify_message_command":  # Node sends the command back, with a status, as it cannot verify
                self._commands.answered(caller.client_id, command.verify_message_command.nonce, command)
            case _:
                pass
        return None

    async def _settings(self, caller: Caller, settings: Settings) -> Settings:
        match settings.WhichOneof("pub_sub"):
            case "publishing":
                return producer_settings(settings)
            case "subscription":
                group = full_name(settings.subscription.group, caller.namespace)
                return consumer_settings(settings, await self._groups.get(group))
            case _:
                raise Refused(
                    Code.UNRECOGNIZED_CLIENT_TYPE, "settings have neither publishing nor subscription"
                )


def _code(number: int) -> Code:
    try:
        return Code(number)
    except ValueError:
        return Code.INTERNAL_SERVER_ERROR


def _described(caller: Caller, settings: Settings) -> tuple[int, str, set[str]]:
    """Return kind, group and topics of a client with these settings. Raises Refused."""
    resources = [one.topic for one in settings.subscription.subscriptions] or settings.publishing.topics
    if len(resources) > TOPICS_MAX:
        raise Refused(Code.BAD_REQUEST, f"there are {len(resources)} topics, settings may have {TOPICS_MAX}")
    topics = {full_name(one, caller.namespace) for one in resources}
    is_producer = settings.WhichOneof("pub_sub") == "publishing"
    kind = settings.client_type or (ClientType.PRODUCER if is_producer else ClientType.SIMPLE_CONSUMER)
    if is_producer != (kind == ClientType.PRODUCER):  # a producer gets checks, which need other rights
        raise Refused(Code.UNRECOGNIZED_CLIENT_TYPE, f"these are no settings of a client of type {kind}")
    return kind, full_name(settings.subscription.group, caller.namespace), topics
