"""Lists what a protobuf file describes, one line for each field, value and call, so that two definitions can be compared."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)


def described(file: FileDescriptorProto) -> list[str]:
    """Everything that matters on the wire and to reflection, in an order that does not depend on the file's."""
    prefix = f".{file.package}."
    lines = [*_enums(file.enum_type, "")]
    for message in file.message_type:
        lines += _message(message, "")
    for service in file.service:
        for method in service.method:
            kind = f"{'stream' if method.client_streaming else 'one'} to {'stream' if method.server_streaming else 'one'}"
            lines.append(f"rpc {service.name}.{method.name} {method.input_type} {method.output_type} {kind}")
    return sorted(line.replace(prefix, "") for line in lines)


def _enums(enums: list[EnumDescriptorProto], scope: str) -> Iterator[str]:
    for enum in enums:
        for value in enum.value:
            yield f"value {scope}{enum.name}.{value.name} {value.number}"


def _message(message: DescriptorProto, scope: str) -> Iterator[str]:
    name = f"{scope}{message.name}"
    yield f"message {name}{' map entry' if message.options.map_entry else ''}"
    yield from _enums(message.enum_type, f"{name}.")
    for nested in message.nested_type:
        yield from _message(nested, f"{name}.")
    for field in message.field:
        kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        rest = [kind, field.type_name] if field.type_name else [kind]
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            rest.append("repeated")
        if field.proto3_optional:
            rest.append("optional")
        elif field.HasField("oneof_index"):
            rest.append(f"oneof {message.oneof_decl[field.oneof_index].name}")
        yield f"field {name}.{field.name} {field.number} {' '.join(rest)}"
