"""Messages with random values in every field of a version, from a seed or from Hypothesis, and frames of responses."""

import random
import string
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

from barnabas.protocol import encode_parts, response_header_version
from barnabas.protocol.framing import RESPONSE_START
from barnabas.protocol.schema import FIXED_WIDTH, Field, Message, Struct
from tests.support.kafka.catalogue import is_own

S = TypeVar("S", bound=Struct)

RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
# One, two and three bytes in UTF-8, so that a length in characters instead of bytes is noticed.
ALPHABET = string.ascii_lowercase + "é€"

_RANDOM_VALUES: dict[str, Callable[[random.Random], Any]] = {
    "boolean": lambda source: source.random() < 0.5,
    "float64": lambda source: source.uniform(-1e9, 1e9),
    "uuid": lambda source: source.randbytes(16),
    "string": lambda source: "".join(source.choices(ALPHABET, k=_length(source))),
    "byte_string": lambda source: source.randbytes(_length(source)),
    "records": lambda source: source.randbytes(_length(source)),
}


def sample(cls: type[S], version: int, source: random.Random) -> S:
    """A struct whose fields of this version (those of Kafka) are random, often null or default where that may be."""
    present = [field for field in cls.FIELDS if field.present_in(version) and not is_own(field)]
    return cls(**{field.name: _sample_field(field, version, source) for field in present})


def _length(source: random.Random) -> int:
    """Mostly short; sometimes long enough for a length of two bytes."""
    return source.choice((0, 1, 3, 7, 200))


def _sample_field(field: Field, version: int, source: random.Random) -> Any:
    if field.nullable_in(version) and source.random() < 0.3:
        return None
    if field.wire == "array":
        return [_sample_element(field.element, version, source) for _ in range(source.randrange(4))]
    return _sample_element(field.element if field.wire == "structure" else field.wire, version, source)


def _sample_element(kind: Any, version: int, source: random.Random) -> Any:
    if not isinstance(kind, str):
        return sample(kind, version, source)
    if kind in RANGES:
        return source.choice((*RANGES[kind], 0, 1, source.randint(*RANGES[kind])))
    return _RANDOM_VALUES[kind](source)


def structs(cls: type[S], version: int) -> st.SearchStrategy[S]:
    """A strategy for structs with any values in the fields of a version."""
    present = [field for field in cls.FIELDS if field.present_in(version)]
    return st.builds(cls, **{field.name: _field_values(field, version) for field in present})


def messages(cls: type[Message]) -> st.SearchStrategy[tuple[int, Message]]:
    """A strategy for (version, message of that version)."""
    versions = st.integers(cls.min_version, cls.max_version)
    return versions.flatmap(lambda version: st.tuples(st.just(version), structs(cls, version)))


def _field_values(field: Field, version: int) -> st.SearchStrategy[Any]:
    kind = field.wire if field.wire not in ("array", "structure") else field.element
    values = _element_values(kind, version)
    if field.wire == "array":
        values = st.lists(values, max_size=3)
    return st.none() | values if field.nullable_in(version) else values


def _element_values(kind: Any, version: int) -> st.SearchStrategy[Any]:
    if not isinstance(kind, str):
        return structs(kind, version)
    if kind in RANGES:
        return st.integers(*RANGES[kind])
    return {
        "boolean": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": st.binary(min_size=FIXED_WIDTH["uuid"][1], max_size=FIXED_WIDTH["uuid"][1]),
        "string": st.text(st.characters(codec="utf-8"), max_size=20)
        | st.text("ab", min_size=127, max_size=130),
        "byte_string": st.binary(max_size=20),
        "records": st.binary(max_size=20),
    }[kind]


def encode_response(correlation_id: int, api_key: int, version: int, message: Message) -> list[Any]:
    """The frame of a response; brokers build theirs in `network/requests/routes`."""
    parts = encode_parts(message, version)
    tags = bytes(response_header_version(api_key, version))
    size = RESPONSE_START.size - 4 + len(tags) + sum(map(len, parts))
    return [RESPONSE_START.pack(size, correlation_id) + tags, *parts]
