from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.records.batch import BatchHeader, iterate_headers
from barnabas.records.compression import Codec
from barnabas.records.record import Record, iterate_records
from barnabas.services.ingest.batches import BatchTopics, _Topic, batches_of, largest_record

MOST = 2000
TOPICS = BatchTopics({"t": _Topic(4, MOST)})
LARGEST = largest_record(TOPICS, "t")


def decoded(batch: bytearray) -> list[Record]:
    ((_, header),) = iterate_headers(memoryview(batch))
    assert isinstance(header, BatchHeader)
    return list(iterate_records(memoryview(batch), header))


@given(
    st.lists(
        st.tuples(st.sampled_from([None, b"a", b"b", b"c"]), st.binary(max_size=1500), st.integers(0, 10)),
        max_size=30,
    ),
    st.integers(0, 9),
    st.sampled_from([Codec.NONE, Codec.GZIP]),
)
def test_every_record_is_in_one_batch_that_fits_and_keys_keep_their_order(
    rows: list[tuple[bytes | None, bytes, int]], keyless: int, codec: int
) -> None:
    records = [Record(0, time, key, value, (("h", b"v"),)) for key, value, time in rows]
    found: dict[bytes | None, list[tuple[bytes | None, int]]] = {}
    places: dict[bytes | None, set[int]] = {}
    for block in batches_of("t", records, TOPICS, codec=codec, keyless=keyless):
        batch = block.seal()
        assert codec or len(batch) <= MOST
        for record in decoded(batch):
            found.setdefault(record.key, []).append((record.value, record.timestamp))
            places.setdefault(record.key, set()).add(block.partition)
    for key in (None, b"a", b"b", b"c"):
        assert found.get(key, []) == [(value, time) for other, value, time in rows if other == key]
        assert len(places.get(key, {0})) == 1
    assert places.get(None, {keyless % 4}) == {keyless % 4}
