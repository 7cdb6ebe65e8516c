"""Generates the Python source of the decoder of one version of a message.

The whole message becomes one function: nested structs are inlined, adjacent fixed-width fields (and the
length, count or tag count that follows them) are read by one `struct` call straight into the attributes, and
lengths below 128 never leave the function.

Bounds: a message ends at `limit`; the rest of the buffer belongs to other messages. A truncated message may
read beyond its end, but the result is discarded: positions only grow, so one comparison at the very end
catches every overrun. Beyond the buffer, reading a number raises, and slicing returns fewer bytes while the
position advances. Only array counts are checked in advance, because they cause allocations. `budget` is the
maximum number of elements of all arrays of the message, unknown tagged fields included; Kafka's limits on a
single array and on the tagged fields of one struct apply as well.

A decoder in steps is the same function as a generator: it yields after each STEP elements, so that the loop
can serve others during a message of many elements, and returns the same result.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from barnabas.protocol import wire
from barnabas.protocol.codec_source import CodecSource
from barnabas.protocol.schema import FIXED_WIDTH, Field, Message, Struct, default_value

# Minimum size in bytes of an array's element: (in flexible versions, in others).
_MIN_VARIABLE = {"string": (1, 2), "byte_string": (1, 4), "records": (1, 4), "array": (1, 4)}

_EMPTY = {"string": '""', "byte_string": 'b""', "records": "buffer[position:position]"}

# Functions that read a length of more than 7 bits, for kinds with a limit.
_READERS = {"string": "read_string_length", "array": "read_array_count"}


def smallest_size(field_type: str, element: Any, version: int, flexible: bool) -> int:
    """Return the minimum number of bytes of a value on the wire."""
    if field_type in FIXED_WIDTH:
        return FIXED_WIDTH[field_type][1]
    if field_type in _MIN_VARIABLE:
        return _MIN_VARIABLE[field_type][0 if flexible else 1]
    size = 1 if flexible else 0
    for field in element.FIELDS:
        if field.present_in(version) and not field.tagged_in(version):
            nullable_struct = field.wire == "structure" and field.nullable_in(version)
            size += 1 if nullable_struct else smallest_size(field.wire, field.element, version, flexible)
    return size


class DecoderSource(CodecSource):
    """Writes one decoder."""

    def __init__(self, cls: type[Message], version: int, *, in_steps: bool = False) -> None:
        super().__init__(cls, version, _WIRE_NAMES, in_steps=in_steps)
        self.names |= {"new": object.__new__, "unpack_from": struct.unpack_from, "struct_error": struct.error}
        self._write_function(cls)

    def _write_function(self, cls: type[Message]) -> None:
        self._lines.append(f"def decode(buffer, position, limit, budget={wire.MAX_ELEMENTS}):")
        self._begin_steps()
        with self._block("try:"):
            self._read_struct(cls, "message")
        self._line("except (struct_error, IndexError, UnicodeDecodeError) as error:")
        self._line(
            f'    raise ProtocolError("{cls.__name__} version {self.version}: " + str(error)) from error'
        )
        self._line("if position > limit:")
        self._line("    refuse_end()")
        self._line("return message, position")

    def _flush(self) -> None:
        """Read all pending fixed-width values with one call."""
        if not self._pending:
            return
        codes = "".join(code for code, _ in self._pending)
        targets = ", ".join(target for _, target in self._pending)
        if codes == "B":
            self._line(f"{targets} = buffer[position]")
        else:
            layout = struct.Struct(">" + codes)
            name = "unpack_" + codes.replace("?", "bool")
            self.names[name] = layout.unpack_from
            comma = "," if len(self._pending) == 1 else ""
            self._line(f"{targets}{comma} = {name}(buffer, position)")
        self._line(f"position += {struct.calcsize('>' + codes)}")
        self._pending.clear()

    def _read_struct(self, cls: type[Struct], target: str) -> None:
        self.names[cls.__name__] = cls
        self._line(f"{target} = new({cls.__name__})")
        tagged = []
        for field in cls.FIELDS:
            present = field.present_in(self.version)
            if present and not field.tagged_in(self.version):
                self._read_field(field, f"{target}.{field.name}")
                continue
            self._line(f"{target}.{field.name} = {self._default(field)}")
            if present:
                tagged.append(field)
        if self.flexible:
            self._read_tagged_fields(tagged, target)

    def _default(self, field: Field) -> str:
        default = default_value(field)
        if default == ():
            return "[]"
        if isinstance(default, Struct):
            name = f"default_{type(default).__name__}"
            self.names[name] = default
            return name
        return repr(default)

    def _read_field(self, field: Field, target: str) -> None:
        nullable = field.nullable_in(self.version)
        if field.wire == "array":
            self._read_array(field, target, nullable)
        elif field.wire == "structure":
            self._read_nested(field, target, nullable)
        else:
            self._read_value(field.wire, field.name, target, nullable)

    def _read_value(self, kind: str, name: str, target: str, nullable: bool) -> None:
        """Read a value that is neither an array nor a struct."""
        if kind in FIXED_WIDTH:
            self._pending.append((FIXED_WIDTH[kind][0], target))
            return
        length = self._variable("length")
        self._read_length(length, kind)
        with self._if_not_empty(length, name, target, nullable, _EMPTY[kind]):
            end = self._variable("end")
            self._line(f"{end} = position + {length}{' - 1' if self.flexible else ''}")
            value = f"buffer[position:{end}]"
            conversion = {"string": f'str({value}, "utf-8")', "byte_string": f"bytes({value})"}
            self._line(f"{target} = {conversion.get(kind, value)}")
            self._line(f"position = {end}")

    def _read_length(self, variable: str, kind: str) -> None:
        """Read the length or count in front of a string, byte string, records or array."""
        if not self.flexible:
            self._pending.append(("h" if kind == "string" else "i", variable))
            self._flush()
            return
        self._pending.append(("B", variable))
        self._flush()
        reader = _READERS.get(kind, "read_unsigned_varint")
        with self._block(f"if {variable} > 127:"):
            self._line("following = buffer[position]")
            with self._block("if following > 127:"):
                self._line(f"{variable}, position = {reader}(buffer, position - 1)")
            with self._block("else:"):  # two bytes, far below the limit of any length
                self._line(f"{variable} += (following << 7) - 128")
                self._line("position += 1")

    @contextmanager
    def _if_not_empty(
        self, length: str, name: str, target: str, nullable: bool, empty: str
    ) -> Iterator[None]:
        """Handle empty values, null and negative lengths; the lines written inside read all other values."""
        zero = 1 if self.flexible else 0
        with self._block(f"if {length} > {zero}:"):
            yield
        self._line(f"elif {length} == {zero}:")
        self._line(f"    {target} = {empty}")
        if nullable:
            self._line(f"elif {length} == {zero - 1}:")
            self._line(f"    {target} = None")
            if self.flexible:
                return  # lengths are not negative
        self._line("else:")
        self._line(f'    refuse_null("{name}")')

    def _read_nested(self, field: Field, target: str, nullable: bool) -> None:
        value = self._variable("nested")
        if not nullable:
            self._read_struct(field.element, value)
            self._line(f"{target} = {value}")
            return
        marker = self._variable("marker")
        # Null is -1 among the plain fields, but 0 in a tagged field.
        tagged = field.tagged_in(self.version)
        self._pending.append(("B" if tagged else "b", marker))
        with self._block(f"if {marker} {'== 0' if tagged else '< 0'}:"):
            self._line(f"{target} = None")
        with self._block("else:"):
            self._read_struct(field.element, value)
            self._flush()
            self._line(f"{target} = {value}")

    def _read_array(self, field: Field, target: str, nullable: bool) -> None:
        count = self._variable("count")
        self._read_length(count, "array")
        with self._if_not_empty(count, field.name, target, nullable, "[]"):
            if self.flexible:
                self._line(f"{count} -= 1")
            else:
                self._line(f"if {count} > {wire.MAX_ARRAY_ELEMENTS}:")
                self._line(f"    refuse_long_array({count})")
            self._read_elements(field, target, count)

    def _read_elements(self, field: Field, target: str, count: str) -> None:
        kind = field.element if isinstance(field.element, str) else "structure"
        smallest = max(1, smallest_size(kind, field.element, self.version, self.flexible))
        self._line(f"budget -= {count}")
        self._line(f"if {count} * {smallest} > limit - position or budget < 0:")
        self._line(f'    refuse_count("{field.name}", {count}, (limit - position) // {smallest})')
        if kind in FIXED_WIDTH and kind != "uuid":
            self._read_numbers(kind, target, count)
        else:
            self._read_each(field, kind, target, count)

    def _read_numbers(self, kind: str, target: str, count: str) -> None:
        code, size = FIXED_WIDTH[kind]
        self._line(f'{target} = list(unpack_from(f">{{{count}}}{code}", buffer, position))')
        self._line(f"position += {count} * {size}")

    def _read_each(self, field: Field, kind: str, target: str, count: str) -> None:
        items, item = self._variable("items"), self._variable("item")
        self._line(f"{target} = {items} = []")
        with self._block(f"while {count}:"):  # most arrays have one element: a range takes longer than that
            self._line(f"{count} -= 1")
            if kind == "structure":
                self._read_struct(field.element, item)
            else:
                self._read_value(kind, field.name, item, nullable=False)
            self._flush()
            self._line(f"{items}.append({item})")
            self._count_element()

    def _read_tagged_fields(self, tagged: list[Field], target: str) -> None:
        count = self._variable("tags")
        self._pending.append(("B", count))
        if not tagged:
            with self._block(f"if {count}:"):
                self._line("position, budget = skip_counted_tags(buffer, position - 1, budget)")
            return
        with self._block(f"if {count}:"):
            self._line(f"{count}, position = read_tag_count(buffer, position - 1)")
            self._line(f"budget -= {count}")
            self._line("if budget < 0:")
            self._line('    refuse_elements("tagged fields")')
            with self._block(f"for _ in range({count}):"):
                self._read_one_tagged_field(tagged, target)

    def _read_one_tagged_field(self, tagged: list[Field], target: str) -> None:
        tag, end = self._variable("tag"), self._variable("tag_end")
        self._line(f"{tag}, position, {end} = read_tag(buffer, position)")
        for number, field in enumerate(tagged):
            with self._block(f"{'elif' if number else 'if'} {tag} == {field.tag}:"):
                self._read_field(field, f"{target}.{field.name}")
        self._line("else:")
        self._line(f"    position = {end}")
        self._line(f"if position != {end}:")
        self._line(f"    refuse_tag_size({tag})")


_WIRE_NAMES = (
    "ProtocolError",
    "read_array_count",
    "read_string_length",
    "read_tag",
    "read_tag_count",
    "read_unsigned_varint",
    "refuse_count",
    "refuse_elements",
    "refuse_end",
    "refuse_long_array",
    "refuse_null",
    "refuse_tag_size",
    "skip_counted_tags",
)
