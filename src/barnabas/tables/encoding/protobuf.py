"""Protobuf: a struct column by the descriptor of a message, with the wire format of the specification.

A null is an absent field. Enums are written by the names of their values, times as `google.protobuf.Timestamp`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from barnabas.tables.encoding.fragments import (
    Encode,
    constant,
    fixed,
    flattened,
    floats,
    gathered,
    joined,
    sized,
    unsigned,
    valid_where,
    whole_numbers,
    zigzag,
)
from barnabas.tables.errors import BadValueError, SchemaError

TIMESTAMP = "google.protobuf.Timestamp"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_F = FieldDescriptor
_FIXED_WIDTH = {_F.TYPE_FIXED32: 4, _F.TYPE_SFIXED32: 4, _F.TYPE_FIXED64: 8, _F.TYPE_SFIXED64: 8}
_NARROW = (_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32)


def message_encoder(message: Descriptor, kind: pa.DataType, where: str = "") -> Encode:
    """Encoder of structs; SchemaError if their fields do not fit the message."""
    if not pa.types.is_struct(kind):
        raise SchemaError(
            f"{where or 'the value'} is {kind}, and the schema has the message {message.full_name}"
        )
    names = {field.name for field in kind}
    extra = sorted(names - set(message.fields_by_name))
    if extra:
        raise SchemaError(f"the message {message.full_name} of the schema has no field {extra[0]}")
    parts = [_field(field, kind, where) for field in message.fields if field.name in names]

    def encode(column: pa.Array) -> pa.Array:
        blank = pa.repeat(constant(b""), len(column))
        return valid_where(joined(blank, *(part(column) for part in parts)), column)

    return encode


def _field(field: FieldDescriptor, kind: pa.StructType, where: str) -> Encode:
    index = kind.get_field_index(field.name)
    path = f"{where}.{field.name}" if where else field.name
    inner = kind.field(index).type
    if _is_map(field):
        encode = _map(field, inner, path)
    elif _is_repeated(field):
        encode = _repeated(field, inner, path)
    else:
        one, wire = _one(field, inner, path)
        tag = constant(_tag(field.number, wire))

        def encode(column: pa.Array) -> pa.Array:
            return joined(tag, one(column))

    return lambda column: pc.fill_null(encode(pc.struct_field(column, index)), constant(b""))


def _repeated(field: FieldDescriptor, kind: pa.DataType, where: str) -> Encode:
    if not pa.types.is_list(kind):
        raise SchemaError(f"{where} is {kind}, and the field of the schema is repeated")
    one, wire = _one(field, kind.value_type, f"{where}[]")
    is_packed = wire != _BYTES and field.is_packed
    tag = constant(_tag(field.number, _BYTES if is_packed else wire))

    def encode(column: pa.Array) -> pa.Array:
        offsets, items = flattened(column)
        _no_nulls(items, where)
        encoded = one(items)
        if not is_packed:
            return gathered(offsets, joined(tag, encoded))
        packed = joined(tag, sized(gathered(offsets, encoded), _sizes))
        return pc.if_else(pa.array(np.diff(offsets) > 0), packed, constant(b""))

    return encode


def _map(field: FieldDescriptor, kind: pa.DataType, where: str) -> Encode:
    if not pa.types.is_map(kind):
        raise SchemaError(f"{where} is {kind}, and the field of the schema is a map")
    parts = field.message_type.fields_by_name
    key, key_wire = _one(parts["key"], kind.key_type, f"{where}{{}}")
    value, value_wire = _one(parts["value"], kind.item_type, f"{where}{{}}")
    tag, tags = constant(_tag(field.number, _BYTES)), (_tag(1, key_wire), _tag(2, value_wire))

    def encode(column: pa.Array) -> pa.Array:
        offsets, entries = flattened(column)
        keys, values = pc.struct_field(entries, 0), pc.struct_field(entries, 1)
        _no_nulls(values, where)
        entry = joined(constant(tags[0]), key(keys), constant(tags[1]), value(values))
        return gathered(offsets, joined(tag, sized(entry, _sizes)))

    return encode


def _no_nulls(items: pa.Array, where: str) -> None:
    if items.null_count:
        raise BadValueError(f"an item of {where} is null in a row, which Protobuf does not have")


def _one(field: FieldDescriptor, kind: pa.DataType, where: str) -> tuple[Encode, int]:
    """(encoder, wire type) of a single value."""
    message = field.message_type
    if message is not None and message.full_name == TIMESTAMP and pa.types.is_timestamp(kind):
        return _timestamp, _BYTES
    if (
        message is not None
        and message.full_name.startswith("google.protobuf.")
        and "value" in message.fields_by_name
    ):
        return _wrapped(message, kind, where), _BYTES
    if message is not None:
        inner = message_encoder(message, kind, where)
        return lambda column: sized(inner(column), _sizes), _BYTES
    found = _scalar(field, kind, where)
    if found is None:
        raise SchemaError(f"{where} is {kind}, and the schema has {_name_of(field)}")
    return found


def _wrapped(message: Descriptor, kind: pa.DataType, where: str) -> Encode:
    """`google.protobuf.StringValue` and the others: a message around a scalar."""
    one, wire = _one(message.fields_by_name["value"], kind, where)
    tag = constant(_tag(1, wire))
    return lambda column: sized(joined(tag, one(column)), _sizes)


def _scalar(field: FieldDescriptor, kind: pa.DataType, where: str) -> tuple[Encode, int] | None:
    types, expected = pa.types, field.type
    if (expected == _F.TYPE_STRING and types.is_string(kind)) or (
        expected == _F.TYPE_BYTES and types.is_binary(kind)
    ):
        return (lambda column: sized(column, _sizes)), _BYTES
    if expected == _F.TYPE_ENUM and types.is_string(kind):
        return _enum(field, where), _VARINT
    if expected == _F.TYPE_BOOL and types.is_boolean(kind):
        return _varint, _VARINT
    if expected in (_F.TYPE_DOUBLE, _F.TYPE_FLOAT):
        is_float = expected == _F.TYPE_FLOAT
        if kind == pa.float32() or (
            not is_float and (types.is_floating(kind) or types.is_signed_integer(kind))
        ):
            code = "<f4" if is_float else "<f8"
            return (
                lambda column: valid_where(floats(column, code), column)
            ), _FIXED32 if is_float else _FIXED64
        return None
    if not types.is_signed_integer(kind) or (expected in _NARROW and kind.bit_width > 32):
        return None
    return _integer(field, where)


def _integer(field: FieldDescriptor, where: str) -> tuple[Encode, int] | None:
    expected = field.type
    if expected in _FIXED_WIDTH:
        width = _FIXED_WIDTH[expected]
        wire = _FIXED32 if width == 4 else _FIXED64
        return (lambda column: _fixed_width(_checked(column, expected, where), width)), wire
    if expected in (_F.TYPE_SINT32, _F.TYPE_SINT64):
        return (lambda column: valid_where(zigzag(whole_numbers(column)), column)), _VARINT
    if expected in (_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64):
        return (lambda column: _varint(_checked(column, expected, where))), _VARINT
    return None


def _checked(column: pa.Array, expected: int, where: str) -> pa.Array:
    """The unsigned types of Protobuf are columns of wider, signed ones."""
    top = {
        _F.TYPE_UINT32: 2**32 - 1,
        _F.TYPE_FIXED32: 2**32 - 1,
        _F.TYPE_UINT64: 2**63 - 1,
        _F.TYPE_FIXED64: 2**63 - 1,
    }
    if expected in top:
        found = pc.min_max(column)
        if found["min"].is_valid and not 0 <= found["min"].as_py() <= found["max"].as_py() <= top[expected]:
            raise BadValueError(f"{where} of a row is not a number of the unsigned type of the schema")
    return column


def _varint(column: pa.Array) -> pa.Array:
    return valid_where(unsigned(whole_numbers(column).view(np.uint64)), column)


def _fixed_width(column: pa.Array, width: int) -> pa.Array:
    words = np.ascontiguousarray(whole_numbers(column), dtype="<i8").view(np.uint8).reshape(-1, 8)
    return valid_where(fixed(words[:, :width]), column)


def _enum(field: FieldDescriptor, where: str) -> Encode:
    numbers = {value.name: value.number for value in field.enum_type.values}
    names = pa.array(list(numbers), pa.string())
    values = pa.array(list(numbers.values()), pa.int64())

    def encode(column: pa.Array) -> pa.Array:
        found = pc.index_in(column, names)
        if found.null_count > column.null_count:
            other = column.filter(pc.and_(column.is_valid(), found.is_null()))[0].as_py()
            raise BadValueError(
                f"{where} is {other!r} in a row, which is not a value of {field.enum_type.full_name}"
            )
        return _varint(values.take(found))

    return encode


def _timestamp(column: pa.Array) -> pa.Array:
    microseconds = whole_numbers(column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64()))
    seconds, rest = microseconds // 1_000_000, microseconds % 1_000_000
    first = joined(constant(_tag(1, _VARINT)), unsigned(seconds.view(np.uint64)))
    second = joined(constant(_tag(2, _VARINT)), unsigned((rest * 1000).view(np.uint64)))
    return valid_where(sized(joined(first, second), _sizes), column)


def _sizes(lengths: npt.NDArray[np.int64]) -> pa.Array:
    return unsigned(lengths.view(np.uint64))


def _tag(number: int, wire: int) -> bytes:
    found: bytes = unsigned(np.array([number << 3 | wire], np.uint64))[0].as_py()
    return found


def _name_of(field: FieldDescriptor) -> str:
    names: Callable[[int], str] = _F_NAMES.__getitem__
    return names(field.type)


_F_NAMES = {
    getattr(_F, name): name.removeprefix("TYPE_").lower() for name in dir(_F) if name.startswith("TYPE_")
}


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_repeated(field: FieldDescriptor) -> bool:
    """Newer libraries deprecate `label`, older ones have nothing else."""
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED)
