"""Builds protobuf message classes from class declarations, in a descriptor pool of their own.

A declaration is the field table and the static type at once. `build` makes a class of the protobuf runtime for each, and puts it
in the declaration's place. The default pool stays empty, so RocketMQ's own generated modules can live in the same process.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    Self,
    TypeGuard,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from gateway.grpc.proto import descriptors
from gateway.grpc.proto.descriptors import FieldSpec, FieldType

Int32 = Annotated[int, FieldType.INT32]
Int64 = Annotated[int, FieldType.INT64]
Float = Annotated[float, FieldType.FLOAT]

_SCALARS: dict[object, FieldType] = {str: FieldType.STRING, bytes: FieldType.BYTES, bool: FieldType.BOOL}


class Spec(NamedTuple):
    """What an annotation does not say about a field."""

    number: int
    is_optional: bool = False
    oneof: str = ""


def field(number: int) -> Any:
    """Declare a field. A list is a repeated field, a dict a map of strings, a class a message; an absent field reads as its zero."""
    return Spec(number)


def optional(number: int) -> Any:
    """Declare a field whose presence `HasField` knows, even where it holds a zero."""
    return Spec(number, is_optional=True)


def member(number: int, oneof: str) -> Any:
    """Declare a member of a oneof: setting it clears the others; `WhichOneof` says which is set."""
    return Spec(number, oneof=oneof)


@dataclass_transform(kw_only_default=True, eq_default=False)
class ProtoMessage:
    """The static type of every message. Fields are keywords of the constructor.

    A message, list or map inside a message is changed in place or by `CopyFrom`; assigning one raises AttributeError.
    An enum reads as an int, since a peer may send a value that is not declared here; parsing keeps it, and unknown fields too.
    """

    if TYPE_CHECKING:

        @classmethod
        def FromString(cls, data: bytes, /) -> Self:  # noqa: N802 - protobuf's name
            """Return the parsed message. Raises google.protobuf.message.DecodeError."""
            ...

        def SerializeToString(self) -> bytes:  # noqa: N802
            """Return the message's bytes."""
            ...

        def ByteSize(self) -> int:  # noqa: N802
            """Return the number of bytes of the serialized message."""
            ...

        def HasField(self, name: str, /) -> bool:  # noqa: N802
            """Return whether a message, an optional field or a oneof's member is present. Raises ValueError for others."""
            ...

        def WhichOneof(self, oneof: str, /) -> str | None:  # noqa: N802
            """Return the name of the member that is set."""
            ...

        def ClearField(self, name: str, /) -> None:  # noqa: N802
            """Make a field absent."""
            ...

        def CopyFrom(self, other: Self, /) -> None:  # noqa: N802
            """Become equal to another message."""
            ...

        def MergeFrom(self, other: Self, /) -> None:  # noqa: N802
            """Take every present field of another message; lists grow."""
            ...


class Rpc(NamedTuple):
    """One call of a service, by names of messages in the service's file."""

    name: str
    request: str
    response: str
    streams_requests: bool = False
    streams_responses: bool = False


class Service(NamedTuple):
    """A service and its calls."""

    name: str
    rpcs: Sequence[Rpc]


class File(NamedTuple):
    """One file of the schema: the enums and messages of its modules, in their order."""

    name: str
    package: str
    modules: Sequence[ModuleType]
    service: Service | None = None


def build(files: Sequence[File]) -> list[bytes]:
    """Make the classes of all files and put each in place of its declaration. A file may use the files before it.

    Returns the serialized descriptor of each file. Raises TypeError for a declaration that no descriptor can hold.
    """
    names = _Names({}, {})
    pool = DescriptorPool()
    described = [_described(file, names) for file in files]
    for one in described:
        pool.AddSerializedFile(one)
    made = {
        declared: GetMessageClass(pool.FindMessageTypeByName(name[1:]))
        for declared, name in names.full.items()
        if issubclass(declared, ProtoMessage)
    }
    for module in (module for file in files for module in file.modules):
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value in made:
                setattr(module, name, made[value])
    return described


class _Names(NamedTuple):
    """What is described so far: full names, which begin with a point, and files."""

    full: dict[type, str]
    files: dict[type, str]

    def add(self, declared: type, full_name: str, file: str) -> None:
        self.full[declared], self.files[declared] = full_name, file


def _described(file: File, names: _Names) -> bytes:
    used: set[str] = set()
    messages, enums = list[bytes](), list[bytes]()
    for declared in _declared(file.modules):
        names.add(declared, f".{file.package}.{declared.__name__}", file.name)
        if issubclass(declared, IntEnum):
            enums.append(descriptors.enum(declared))
        else:
            messages.append(_Declaration(declared, names, used).encoded())
    services = [_service(file.package, file.service)] if file.service else []
    parts = descriptors.FileParts(sorted(used - {file.name}), messages, enums, services)
    return descriptors.file(file.name, file.package, parts)


def _declared(modules: Iterable[ModuleType]) -> Iterator[type[IntEnum | ProtoMessage]]:
    """Yield the enums and messages that the modules declare themselves."""
    for module in modules:
        for value in vars(module).values():
            if _is_declaration(value) and value.__module__ == module.__name__:
                yield value


def _is_declaration(value: object) -> TypeGuard[type[IntEnum | ProtoMessage]]:
    return isinstance(value, type) and issubclass(value, (IntEnum, ProtoMessage))


def _service(package: str, service: Service) -> bytes:
    methods = (
        descriptors.method(
            rpc.name,
            f".{package}.{rpc.request}",
            f".{package}.{rpc.response}",
            streams_requests=rpc.streams_requests,
            streams_responses=rpc.streams_responses,
        )
        for rpc in service.rpcs
    )
    return descriptors.service(service.name, methods)


class _Declaration:
    """Describes one message."""

    def __init__(self, declared: type[ProtoMessage], names: _Names, used: set[str]) -> None:
        self._declared, self._names, self._used = declared, names, used
        self._full, self._file = names.full[declared], names.files[declared]
        self._nested, self._enums = list[bytes](), list[bytes]()

    def encoded(self) -> bytes:
        """Return the DescriptorProto; add the files of its fields' types to the used ones."""
        members = vars(self._declared)
        for value in members.values():
            if _is_declaration(value) and issubclass(value, IntEnum):
                self._names.add(value, f"{self._full}.{value.__name__}", self._file)
                self._enums.append(descriptors.enum(value))
        hints = get_type_hints(self._declared, include_extras=True)
        specs = {name: value for name, value in members.items() if isinstance(value, Spec)}
        oneofs = list(dict.fromkeys(spec.oneof for spec in specs.values() if spec.oneof))
        oneofs += [f"_{name}" for name, spec in specs.items() if spec.is_optional]
        fields = [self._field(name, spec, hints[name], oneofs) for name, spec in specs.items()]
        return descriptors.message(self._declared.__name__, fields, oneofs, self._nested, self._enums)

    def _field(self, name: str, spec: Spec, hint: object, oneofs: list[str]) -> FieldSpec:
        oneof = f"_{name}" if spec.is_optional else spec.oneof
        place = oneofs.index(oneof) if oneof else None
        origin = get_origin(hint)
        if origin is dict:
            entry = f"{name.title().replace('_', '')}Entry"
            self._nested.append(descriptors.map_entry(entry))
            type_name = f"{self._full}.{entry}"
            return FieldSpec(name, spec.number, FieldType.MESSAGE, type_name, is_repeated=True)
        is_repeated = origin is list
        kind, type_name = self._type(get_args(hint)[0] if is_repeated else hint)
        return FieldSpec(name, spec.number, kind, type_name, is_repeated, place, spec.is_optional)

    def _type(self, hint: object) -> tuple[FieldType, str]:
        """Return a field's type, and the full name of its message or enum."""
        if get_origin(hint) is Annotated:
            of = get_args(hint)[1]
            return (of, "") if isinstance(of, FieldType) else (FieldType.ENUM, self._name_of(of))
        scalar = _SCALARS.get(hint)
        return (scalar, "") if scalar else (FieldType.MESSAGE, self._name_of(hint))

    def _name_of(self, declared: object) -> str:
        if not isinstance(declared, type) or declared not in self._names.full:
            raise TypeError(f"{self._declared.__name__} uses {declared}, which is not declared before it")
        self._used.add(self._names.files[declared])
        return self._names.full[declared]
