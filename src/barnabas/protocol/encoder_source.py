"""Generates the Python source of the encoder of one version of a message.

The mirror image of decoder_source.py: one function for the whole message, one `struct` call for adjacent
fixed-width fields together with the following length or count, everything into one bytearray. Where `records`
hold something that is not bytes (a slice of a file), the bytearray ends, the value becomes a part of the
output unchanged, and a new bytearray begins. In steps, it is a generator that yields after each STEP
elements.
"""

from __future__ import annotations

import struct

from barnabas.common.files import FileSlice
from barnabas.protocol.codec_source import CodecSource
from barnabas.protocol.schema import FIXED_WIDTH, Field, Message, Struct, default_value

_ONE = b"\0\0\0\1"


class EncoderSource(CodecSource):
    """Writes one encoder."""

    def __init__(self, cls: type[Message], version: int, *, in_steps: bool = False) -> None:
        super().__init__(cls, version, _WIRE_NAMES, in_steps=in_steps)
        self.names |= {"FileSlice": FileSlice, "pack": struct.pack, "struct_error": struct.error}
        self._write_function(cls)

    def _write_function(self, cls: type[Message]) -> None:
        self._lines.append("def encode(message, out, parts):")
        self._begin_steps()
        with self._block("try:"):
            self._write_struct(cls, "message")
        self._line("except (struct_error, AttributeError, TypeError, UnicodeEncodeError) as error:")
        self._line(
            f'    raise EncodeError("{cls.__name__} version {self.version}: " + str(error)) from error'
        )
        self._line("return out")

    def _flush(self) -> None:
        """Write all pending fixed-width values with one call."""
        if self._pending:
            self._line(self._packing(self._pending))
            self._pending.clear()

    def _packing(self, values: list[tuple[str, str]]) -> str:
        codes = "".join(code for code, _ in values)
        if codes.strip("x") == "":
            return f"out += {bytes(len(codes))!r}"
        if codes == "B":
            return f"out.append({values[0][1]})"
        name = "pack_" + codes.replace("?", "bool")
        self.names[name] = struct.Struct(">" + codes).pack
        return f"out += {name}({', '.join(expression for _, expression in values if expression)})"

    def _write_struct(self, cls: type[Struct], source: str) -> None:
        tagged = []
        for field in cls.FIELDS:
            expression = f"{source}.{field.name}"
            if not field.present_in(self.version):
                self._check_absent(cls, field, expression)
            elif field.tagged_in(self.version):
                tagged.append(field)
            else:
                self._write_field(field, expression)
        if self.flexible:
            self._write_tagged_fields(tagged, source)

    def _check_absent(self, cls: type[Struct], field: Field, expression: str) -> None:
        if not field.ignorable:
            self._line(f"if {self._differs_from_default(field, expression)}:")
            self._line(f'    refuse_unsupported("{cls.__name__}", "{field.name}", {self.version})')

    def _differs_from_default(self, field: Field, expression: str) -> str:
        default = default_value(field)
        if default is None:
            return f"{expression} is not None"
        if default == ():
            return f"({expression} or {expression} is None)"
        if isinstance(default, Struct):
            name = f"default_{type(default).__name__}"
            self.names[name] = default
            # Field by field: a call to compare structs takes as long as all the rest of a short request.
            fields = [
                self._differs_from_default(each, f"{expression}.{each.name}") for each in default.FIELDS
            ]
            differs = " or ".join((f"{expression} is None", *fields))
            return f"({expression} is not {name} and ({differs}))"
        return f"{expression} != {default!r}"

    def _write_field(self, field: Field, expression: str) -> None:
        nullable = field.nullable_in(self.version)
        if field.wire == "array":
            self._write_array(field, expression, nullable)
        elif field.wire == "structure":
            self._write_nested(field, expression, nullable)
        else:
            self._write_value(field.wire, expression, nullable)

    def _write_value(self, kind: str, expression: str, nullable: bool) -> None:
        """Write a value that is neither an array nor a struct."""
        if kind in FIXED_WIDTH:
            self._pending.append((FIXED_WIDTH[kind][0], expression))
            return
        value, length = self._variable("value"), self._variable("length")
        self._line(f"{value} = {expression}")
        if nullable and not self._pending:  # a null without pending numbers needs no call
            with self._block(f"if {value} is None:"):
                self._line(f"out += {self._null(kind)!r}")
            with self._block("else:"):
                self._measure(kind, value, length, nullable=False)
                self._write_length(length, kind)
                self._append(kind, value, "")
            return
        self._measure(kind, value, length, nullable)
        self._write_length(length, kind)
        self._append(kind, value, f"if {value} is not None: " if nullable else "")

    def _null(self, kind: str) -> bytes:
        """The length that encodes null."""
        return b"\0" if self.flexible else b"\xff" * (2 if kind == "string" else 4)

    def _measure(self, kind: str, value: str, length: str, nullable: bool) -> None:
        """Compute the length prefix of a value; strings are encoded on the way."""
        extra = " + 1" if self.flexible else ""
        indent = ""
        if nullable:
            self._line(f"if {value} is None:")
            self._line(f"    {length} = {0 if self.flexible else -1}")
            self._line("else:")
            indent = "    "
        if kind == "string":
            self._line(f"{indent}{value} = {value}.encode()")
        if kind == "records":  # without the frame of its __len__
            self._line(
                f"{indent}{length} = ({value}.length if type({value}) is FileSlice else len({value})){extra}"
            )
        else:
            self._line(f"{indent}{length} = len({value}){extra}")

    def _append(self, kind: str, value: str, condition: str) -> None:
        if kind == "records":
            self._line(f"{condition}out = append_records(out, {value}, parts)")
        else:
            self._line(f"{condition}out += {value}")

    def _write_length(self, length: str, kind: str) -> None:
        """Write a length or count, in the same call as the numbers before it."""
        if not self.flexible:
            if kind == "array" and not self._pending:  # most arrays have one element: no call for its count
                self.names["pack_i"] = struct.Struct(">i").pack
                self._line(f"out += {_ONE!r} if {length} == 1 else pack_i({length})")
                return
            self._pending.append(("h" if kind == "string" else "i", length))
            self._flush()
            return
        before = list(self._pending)
        self._pending.clear()
        self._line(f"if {length} < 128:")
        self._line("    " + self._packing([*before, ("B", length)]))
        self._line("else:")
        if before:
            self._line("    " + self._packing(before))
        self._line(
            f"    out += {'string_length_varint' if kind == 'string' else 'unsigned_varint'}({length})"
        )

    def _write_nested(self, field: Field, expression: str, nullable: bool) -> None:
        value = self._variable("nested")
        self._line(f"{value} = {expression}")
        if not nullable:
            self._write_struct(field.element, value)
            return
        with self._block(f"if {value} is None:"):
            # Null is -1 among the plain fields, but 0 in a tagged field.
            self._pending.append(("b", "0" if field.tagged_in(self.version) else "-1"))
        with self._block("else:"):
            self._pending.append(("b", "1"))
            self._write_struct(field.element, value)

    def _write_array(self, field: Field, expression: str, nullable: bool) -> None:
        items, count = self._variable("items"), self._variable("count")
        self._line(f"{items} = {expression}")
        self._measure("array", items, count, nullable)
        self._write_length(count, "array")
        if nullable:
            with self._block(f"if {items} is not None:"):
                self._write_elements(field, items)
        else:
            self._write_elements(field, items)

    def _write_elements(self, field: Field, items: str) -> None:
        kind = field.element if isinstance(field.element, str) else "structure"
        if kind in FIXED_WIDTH and kind != "uuid":
            self._line(f'out += pack(f">{{len({items})}}{FIXED_WIDTH[kind][0]}", *{items})')
            return
        item = self._variable("item")
        with self._block(f"for {item} in {items}:"):
            if kind == "structure":
                self._write_struct(field.element, item)
            else:
                self._write_value(kind, item, nullable=False)
            self._count_element()

    def _write_tagged_fields(self, tagged: list[Field], source: str) -> None:
        if not tagged:
            self._pending.append(("x", ""))
            return
        flags = []
        for field in tagged:
            flag = self._variable("set")
            flags.append(flag)
            self._line(f"{flag} = {self._differs_from_default(field, f'{source}.{field.name}')}")
        with self._block(f"if {' or '.join(flags)}:"):
            self._line(f"out += unsigned_varint({' + '.join(f'bool({flag})' for flag in flags)})")
            for flag, field in sorted(zip(flags, tagged, strict=True), key=lambda pair: pair[1].tag or 0):
                with self._block(f"if {flag}:"):
                    self._write_one_tagged_field(field, f"{source}.{field.name}")
        self._line("else:")
        self._line("    out.append(0)")

    def _write_one_tagged_field(self, field: Field, expression: str) -> None:
        """Write the value into a separate buffer, because its size precedes it."""
        outer = self._variable("outer")
        self._line(f"{outer} = out")
        self._line("out = bytearray()")
        self._write_field(field, expression)
        self._flush()
        self._line(f"{outer} += unsigned_varint({field.tag}) + unsigned_varint(len(out))")
        self._line(f"{outer} += out")
        self._line(f"out = {outer}")


_WIRE_NAMES = (
    "EncodeError",
    "append_records",
    "refuse_unsupported",
    "string_length_varint",
    "unsigned_varint",
)
