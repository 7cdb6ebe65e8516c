"""Primitives of Kafka's wire format that generated codecs call on their slow paths.

The code generators inline the common cases (fixed-width numbers, lengths below 128); this module handles long
varints, unknown tagged fields, and errors.
"""

from __future__ import annotations

from typing import Any, Never

# Elements of all arrays of a message, for readers without a limit: Metadata of 50,000 partitions with three
# replicas has half a million.
MAX_ELEMENTS = 4_000_000

# Kafka's limits since 4.4 (MessageUtil), whatever the reader allows: elements of an array, tags of a struct.
MAX_ARRAY_ELEMENTS = 1_000_000
MAX_TAGGED_FIELDS = 10_000

# Elements after which a codec in steps yields to the loop: about half a millisecond.
STEP = 256

# Compact strings could be longer, but Kafka keeps the limit of the old int16 length.
MAX_STRING_BYTES = 0x7FFF

# From this size on, `bytes` passed as records become a separate part instead of being copied.
RECORDS_COPIED_BELOW = 16 * 1024

ZERO_UUID = bytes(16)


class ProtocolError(ValueError):
    """The bytes are not a well-formed message; the connection has to be closed."""


class TooManyElementsError(ProtocolError):
    """The arrays of a message hold more elements together than its reader allows."""


class CountTooLargeError(ProtocolError):
    """An array or a struct claims more elements or tagged fields than Kafka accepts in any message."""


class EncodeError(ValueError):
    """A message holds a value that the chosen version cannot carry."""


class UnknownVersionError(ValueError):
    """A message does not have this version; the caller should have checked."""


def read_unsigned_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned 32-bit varint and return it with the position behind it."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise ProtocolError(f"varint {value} does not fit 32 bits")
            return value, position
        shift += 7
        if shift > 28:
            raise ProtocolError("varint is longer than 5 bytes")


def read_string_length(buffer: memoryview, position: int) -> tuple[int, int]:
    """Read a compact string length (one more than the bytes that follow) and check Kafka's limit."""
    length, position = read_unsigned_varint(buffer, position)
    if length > MAX_STRING_BYTES + 1:
        raise ProtocolError(f"string of {length - 1} bytes is longer than {MAX_STRING_BYTES}")
    return length, position


def read_array_count(buffer: memoryview, position: int) -> tuple[int, int]:
    """Read a compact array's count (one more than its elements) where it takes more than one byte."""
    count, position = read_unsigned_varint(buffer, position)
    if count > MAX_ARRAY_ELEMENTS + 1:
        refuse_long_array(count - 1)
    return count, position


def unsigned_varint(value: int) -> bytes:
    """Return the varint encoding of a value of at most 32 bits."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def string_length_varint(length: int) -> bytes:
    """Return the varint of a compact string length, refusing strings Kafka would refuse."""
    if length > MAX_STRING_BYTES + 1:
        raise EncodeError(f"string of {length - 1} bytes is longer than {MAX_STRING_BYTES}")
    return unsigned_varint(length)


def read_tag_count(buffer: memoryview, position: int) -> tuple[int, int]:
    """Read the number of tagged fields where it takes more than one byte."""
    count, position = read_unsigned_varint(buffer, position)
    if count > MAX_TAGGED_FIELDS:
        raise CountTooLargeError(f"{count} tagged fields, more than {MAX_TAGGED_FIELDS}")
    return count, position


def read_tag(buffer: memoryview, position: int) -> tuple[int, int, int]:
    """Read a tagged field's header: its tag, where its value starts and where it ends."""
    tag, position = read_unsigned_varint(buffer, position)
    size, position = read_unsigned_varint(buffer, position)
    end = position + size
    if end > len(buffer):
        raise ProtocolError(f"tagged field {tag} of {size} bytes runs beyond the message")
    return tag, position, end


def skip_tagged_fields(buffer: memoryview, position: int) -> int:
    """Skip a whole tagged-field section, its count included, and return its end."""
    count, position = read_tag_count(buffer, position)
    for _ in range(count):
        _tag, _start, position = read_tag(buffer, position)
    return position


def skip_counted_tags(buffer: memoryview, position: int, budget: int) -> tuple[int, int]:
    """Skip unknown tagged fields; return their end and the remaining budget of elements."""
    count, position = read_tag_count(buffer, position)
    budget -= count
    if budget < 0:
        refuse_elements("tagged fields")
    for _ in range(count):
        _tag, _start, position = read_tag(buffer, position)
    return position, budget


def refuse_null(field: str) -> Never:
    """Refuse a null (or negative length) for a field that has none in this version."""
    raise ProtocolError(f"{field} must not be null")


def refuse_count(field: str, count: int, room: int) -> Never:
    """Refuse an array that cannot fit into the remaining bytes, or that has too many elements for the reader."""
    if count <= room:
        refuse_elements(field)
    raise ProtocolError(f"{field} claims {count} elements, more than the message can hold")


def refuse_long_array(count: int) -> Never:
    """Refuse an array longer than Kafka's limit before its elements are read."""
    raise CountTooLargeError(f"an array claims {count} elements, more than {MAX_ARRAY_ELEMENTS}")


def refuse_elements(field: str) -> Never:
    """Refuse a message at the array that exceeds the reader's limit of elements."""
    raise TooManyElementsError(f"the message has too many elements; the limit was exceeded in {field}")


def refuse_tag_size(tag: int) -> Never:
    """Refuse a tagged field whose declared size is not the size of its value."""
    raise ProtocolError(f"tagged field {tag} does not have the size it claims")


def refuse_end() -> Never:
    """Refuse a message whose last field runs beyond its bytes."""
    raise ProtocolError("message ends in the middle of a field")


def refuse_unsupported(message: str, field: str, version: int) -> Never:
    """Refuse to drop a value that the receiver needs."""
    raise EncodeError(f"{message} version {version} cannot carry {field}, which is not at its default")


def append_records(out: bytearray, records: Any, parts: list[Any]) -> bytearray:
    """Append records, or split the output around a value that becomes a separate part.

    Returns the buffer for the rest of the output.
    """
    kind = type(records)
    if (kind is bytes and len(records) < RECORDS_COPIED_BELOW) or kind is bytearray or kind is memoryview:
        out += records
        return out
    parts += (out, records)
    return bytearray()
