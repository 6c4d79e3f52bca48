"""Server reflection (`grpc.reflection.v1` and `v1alpha`): tools such as grpcurl read the services and messages of a server."""

from collections.abc import Iterable, Iterator

from gantry_link.grpc.calls import Methods, Stream
from gantry_link.grpc.protobuf import bytes_field, fields, number_field, text_of
from gantry_link.grpc.status import GrpcStatus

SERVICES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")

# Fields of a request and a response
_BY_NAME, _BY_SYMBOL, _LIST = 3, 4, 7
_HOST, _ORIGINAL, _FILES, _SERVICES, _ERROR = 1, 2, 4, 6, 7
# Fields of descriptors: the file, its messages, their enums; `name` is 1 in all of them
_NAME, _PACKAGE, _DEPENDENCY, _MESSAGE, _ENUM, _SERVICE, _EXTENSION = range(1, 8)
_FIELD, _NESTED, _NESTED_ENUM, _NESTED_EXTENSION = 2, 3, 4, 6
_VALUE = _METHOD = 2


class Reflection:
    """The descriptors of a server."""

    def __init__(self, files: Iterable[bytes], services: Iterable[str] = ()) -> None:
        """`files` are serialized FileDescriptorProtos with all that they import; `services` are further names to list. Raises GrpcError for a file that is malformed."""
        self._files: dict[str, bytes] = {}
        self._dependencies: dict[str, list[str]] = {}
        self._symbols: dict[str, str] = {}
        self._services = {*services, *SERVICES}
        for file in files:
            self._add(file)

    @property
    def methods(self) -> Methods:
        """The one method of each version."""
        return Methods({}, {f"/{service}/ServerReflectionInfo": self._serve for service in SERVICES})

    async def _serve(self, stream: Stream) -> None:
        while (request := await stream.receive()) is not None:
            await stream.send(self.answer(request))

    def answer(self, request: bytes) -> bytes:
        """Return the response to one request."""
        host, answer = b"", _error(GrpcStatus.UNIMPLEMENTED, "this request is not supported")
        for number, content in fields(request):
            if number == _HOST:
                host = bytes_field(_HOST, content)
            elif number == _LIST:
                names = (bytes_field(_NAME, name.encode()) for name in sorted(self._services))
                answer = bytes_field(_SERVICES, b"".join(bytes_field(1, name) for name in names))
            elif number in (_BY_NAME, _BY_SYMBOL):
                name = text_of(content)
                answer = self._file(name if number == _BY_NAME else self._symbols.get(name.lstrip(".")))
        return host + bytes_field(_ORIGINAL, request) + answer

    def _file(self, name: str | None) -> bytes:
        """Return a file and all that it imports."""
        if name is None or name not in self._files:
            return _error(GrpcStatus.NOT_FOUND, "no such file or symbol")
        found: dict[str, None] = {}
        waiting = [name]
        while waiting:
            one = waiting.pop()
            if one not in found and one in self._files:
                found[one] = None
                waiting += self._dependencies[one]
        return bytes_field(_FILES, b"".join(bytes_field(1, self._files[one]) for one in found))

    def _add(self, file: bytes) -> None:
        parts = list(fields(file))
        name = _first(parts, _NAME)
        package = _first(parts, _PACKAGE)
        self._files[name] = file
        self._dependencies[name] = [text_of(content) for number, content in parts if number == _DEPENDENCY]
        scope = package + "." if package else ""
        for number, content in parts:
            if number == _SERVICE:
                self._services.add(scope + _first(fields(content), _NAME))
            for symbol in _symbols(number, content, scope):
                self._symbols[symbol] = name


def _symbols(number: int, content: bytes, scope: str) -> Iterator[str]:
    """Yield the names that a part of a file defines."""
    if number == _MESSAGE:
        yield from _message_symbols(content, scope)
    elif number == _ENUM:
        yield from _enum_symbols(content, scope)
    elif number == _EXTENSION:
        yield scope + _first(fields(content), _NAME)
    elif number == _SERVICE:
        name = scope + _first(fields(content), _NAME)
        yield name
        yield from _named(content, _METHOD, name + ".")


def _message_symbols(content: bytes, scope: str) -> Iterator[str]:
    name = scope + _first(fields(content), _NAME)
    yield name
    yield from _named(content, _FIELD, name + ".")
    yield from _named(content, _NESTED_EXTENSION, name + ".")
    for number, part in fields(content):
        if number == _NESTED:
            yield from _message_symbols(part, name + ".")
        elif number == _NESTED_ENUM:
            yield from _enum_symbols(part, name + ".")


def _enum_symbols(content: bytes, scope: str) -> Iterator[str]:
    yield scope + _first(fields(content), _NAME)
    yield from _named(content, _VALUE, scope)  # values are siblings of their enum


def _named(content: bytes, wanted: int, scope: str) -> Iterator[str]:
    return (scope + _first(fields(part), _NAME) for number, part in fields(content) if number == wanted)


def _first(parts: Iterable[tuple[int, bytes]], wanted: int) -> str:
    return next((text_of(content) for number, content in parts if number == wanted), "")


def _error(status: GrpcStatus, message: str) -> bytes:
    return bytes_field(_ERROR, number_field(1, status) + bytes_field(2, message.encode()))
