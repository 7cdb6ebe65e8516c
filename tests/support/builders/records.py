"""Records and batches that several tests share, and Hypothesis strategies for them."""

from hypothesis import strategies as st

from barnabas.records.batch import HEADER, LOG_OVERHEAD, BatchHeader, write_crc
from barnabas.records.compression import Codec
from barnabas.records.record import Record

NOW = 1_700_000_000_000
CODECS = list(Codec)

EXAMPLES = [
    Record(0, NOW, b"key", b"value"),
    Record(1, NOW - 5, None, b"no key"),
    Record(2, NOW + 90_000, b"tombstone", None),
    Record(3, NOW, None, None),
    Record(4, NOW + 1, b"", b""),
    Record(
        5,
        NOW + 2,
        b"headers",
        b"x" * 300,
        (("trace", b"abc"), ("empty", b""), ("null", None), ("trace", b"2")),
    ),
    Record(6, NOW + 3, b"large", b"0123456789abcdef" * 9600),  # several blocks of every codec
]

_bytes = st.none() | st.binary(max_size=200)
_headers = st.lists(st.tuples(st.text(max_size=20), _bytes), max_size=4).map(tuple)
_timestamps = st.integers(-1, NOW * 2)


@st.composite
def record_lists(draw: st.DrawFn, max_size: int = 20) -> list[Record]:
    fields = draw(st.lists(st.tuples(_timestamps, _bytes, _bytes, _headers), min_size=1, max_size=max_size))
    return [Record(offset, *field) for offset, field in enumerate(fields)]


def with_header(batch: bytes | bytearray, **changes: int) -> bytearray:
    """The batch with other header fields, and the CRC that a liar would compute for them."""
    changed = bytearray(batch)
    header = BatchHeader._make(HEADER.unpack_from(changed))
    HEADER.pack_into(changed, 0, *header._replace(**changes))
    write_crc(changed, 0, len(changed))
    return changed


def batch_of(data: bytes, record_count: int, codec: int = 0) -> bytearray:
    """A batch with a right header around any bytes."""
    batch = bytearray(HEADER.size) + data
    header = BatchHeader(
        0, len(batch) - LOG_OVERHEAD, -1, 2, 0, codec, record_count - 1, NOW, NOW, -1, -1, -1, record_count
    )
    HEADER.pack_into(batch, 0, *header)
    write_crc(batch, 0, len(batch))
    return batch
