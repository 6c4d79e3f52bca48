"""Builds protobuf message classes from class declarations, in a descriptor pool of their own.

A declaration is the field table and the static type at once. `build` makes a class of the protobuf runtime for each, and puts it
in the declaration's place. None of them enters the default pool, so RocketMQ's own generated modules can live in the same process.
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

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    MessageOptions,
    MethodDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Int32 = Annotated[int, FieldDescriptorProto.TYPE_INT32]
Int64 = Annotated[int, FieldDescriptorProto.TYPE_INT64]
Float = Annotated[float, FieldDescriptorProto.TYPE_FLOAT]

_TEXT = FieldDescriptorProto.TYPE_STRING
_ENUM, _MESSAGE = FieldDescriptorProto.TYPE_ENUM, FieldDescriptorProto.TYPE_MESSAGE
_ONE, _MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
_SCALARS: dict[object, FieldDescriptorProto.Type.ValueType] = {
    str: _TEXT,
    bytes: FieldDescriptorProto.TYPE_BYTES,
    bool: FieldDescriptorProto.TYPE_BOOL,
}


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
    described = [_described(file, names).SerializeToString() for file in files]
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


def _described(file: File, names: _Names) -> FileDescriptorProto:
    described = FileDescriptorProto(name=file.name, package=file.package, syntax="proto3")
    used: set[str] = set()
    for declared in _declared(file.modules):
        names.add(declared, f".{file.package}.{declared.__name__}", file.name)
        if issubclass(declared, IntEnum):
            described.enum_type.append(_enum(declared))
        else:
            described.message_type.append(_Declaration(declared, names, used).described())
    if file.service is not None:
        methods = [_method(file.package, rpc) for rpc in file.service.rpcs]
        described.service.add(name=file.service.name, method=methods)
    described.dependency.extend(sorted(used - {file.name}))
    return described


def _declared(modules: Iterable[ModuleType]) -> Iterator[type[IntEnum | ProtoMessage]]:
    """Yield the enums and messages that the modules declare themselves."""
    for module in modules:
        for value in vars(module).values():
            if _is_declaration(value) and value.__module__ == module.__name__:
                yield value


def _is_declaration(value: object) -> TypeGuard[type[IntEnum | ProtoMessage]]:
    return isinstance(value, type) and issubclass(value, (IntEnum, ProtoMessage))


def _enum(declared: type[IntEnum]) -> EnumDescriptorProto:
    described = EnumDescriptorProto(name=declared.__name__)
    for name, value in declared.__members__.items():
        described.value.add(name=name, number=value)
    return described


def _method(package: str, rpc: Rpc) -> MethodDescriptorProto:
    return MethodDescriptorProto(
        name=rpc.name,
        input_type=f".{package}.{rpc.request}",
        output_type=f".{package}.{rpc.response}",
        client_streaming=rpc.streams_requests,
        server_streaming=rpc.streams_responses,
    )


class _Declaration:
    """Describes one message."""

    def __init__(self, declared: type[ProtoMessage], names: _Names, used: set[str]) -> None:
        self._declared, self._names, self._used = declared, names, used
        self._full, self._file = names.full[declared], names.files[declared]
        self._into = DescriptorProto(name=declared.__name__)

    def described(self) -> DescriptorProto:
        """Return the descriptor; add the files of its fields' types to the used ones."""
        members = vars(self._declared)
        for value in members.values():
            if _is_declaration(value) and issubclass(value, IntEnum):
                self._names.add(value, f"{self._full}.{value.__name__}", self._file)
                self._into.enum_type.append(_enum(value))
        hints = get_type_hints(self._declared, include_extras=True)
        specs = {name: value for name, value in members.items() if isinstance(value, Spec)}
        oneofs = list(dict.fromkeys(spec.oneof for spec in specs.values() if spec.oneof))
        oneofs += [f"_{name}" for name, spec in specs.items() if spec.is_optional]
        for oneof in oneofs:
            self._into.oneof_decl.add(name=oneof)
        for name, spec in specs.items():
            one = self._into.field.add(name=name, number=spec.number, label=_ONE)
            self._set_type(one, hints[name])
            oneof = f"_{name}" if spec.is_optional else spec.oneof
            if oneof:
                one.oneof_index = oneofs.index(oneof)
            if spec.is_optional:
                one.proto3_optional = True
        return self._into

    def _set_type(self, one: FieldDescriptorProto, hint: object) -> None:
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is list:
            one.label = _MANY
            self._set_type(one, arguments[0])
        elif origin is dict:
            one.label, one.type, one.type_name = _MANY, _MESSAGE, self._map_entry(one.name)
        elif origin is Annotated and isinstance(arguments[1], type):
            one.type, one.type_name = _ENUM, self._name_of(arguments[1])
        elif origin is Annotated:
            one.type = arguments[1]
        elif hint in _SCALARS:
            one.type = _SCALARS[hint]
        else:
            one.type, one.type_name = _MESSAGE, self._name_of(hint)

    def _map_entry(self, field_name: str) -> str:
        """Add the entry of a map of strings; return its full name."""
        name = f"{field_name.title().replace('_', '')}Entry"
        entry = self._into.nested_type.add(name=name, options=MessageOptions(map_entry=True))
        entry.field.add(name="key", number=1, label=_ONE, type=_TEXT)
        entry.field.add(name="value", number=2, label=_ONE, type=_TEXT)
        return f"{self._full}.{name}"

    def _name_of(self, declared: object) -> str:
        if not isinstance(declared, type) or declared not in self._names.full:
            raise TypeError(f"{self._declared.__name__} uses {declared}, which is not declared before it")
        self._used.add(self._names.files[declared])
        return self._names.full[declared]
