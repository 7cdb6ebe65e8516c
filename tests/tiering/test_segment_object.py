"""One object per segment: every byte is verified, and it is never completely in memory."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.log.tiering.copying import OpenTransaction
from barnabas.records.batch import iterate_headers
from barnabas.testing.objects import MemoryObjectStore
from barnabas.tiering.objects import segment_build, segment_object
from barnabas.tiering.objects.segment_build import SegmentBuild
from barnabas.tiering.objects.segment_object import (
    ABORTED,
    OFFSET_INDEX,
    PRODUCERS,
    TIME_INDEX,
    TRAILER_SIZE,
    BadObjectError,
    Footer,
    find_footer,
    read_chunk,
    read_footer,
    read_section,
)
from tests.support.builders.segments import FOLDER, batches, build, in_thread, sealed

T = TypeVar("T")


class OneObject(MemoryObjectStore):
    """The part of a store that reads."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data = data

    async def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.data[start:end]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_build, "CHUNK_BYTES", 2000)
    monkeypatch.setattr(segment_build, "PIECE_BYTES", 700)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(coroutine)


def test_built_records_are_read_back() -> None:
    open_transactions = (OpenTransaction(7, 1, 110, True), OpenTransaction(8, 0, 190, None))
    segment = sealed(
        100, 200, epochs=((1, 0), (3, 150)), aborted=b"x" * 34, open_transactions=open_transactions
    )
    data, entry = run(build(segment))
    store = OneObject(data)
    assert data.startswith(segment.data.read())
    assert (entry.base, entry.end, entry.size, entry.total) == (100, 200, len(segment.data), len(data))
    assert entry.epochs == ((1, 0), (3, 150))

    footer = run(read_footer(store, "key", entry))
    assert footer == Footer.decode(data[entry.footer :])
    assert footer.open_transactions == open_transactions
    for name, wanted in (
        (OFFSET_INDEX, segment.offset_index),
        (TIME_INDEX, segment.time_index),
        (ABORTED, segment.aborted),
        (PRODUCERS, segment.producers),
    ):
        assert run(read_section(store, "key", footer, name)) == wanted


def test_chunks_hold_whole_batches_and_are_found_by_offset() -> None:
    segment = sealed(0, 300)
    data, entry = run(build(segment))
    footer = Footer.decode(data[entry.footer :])
    assert len(footer.chunks) > 5
    seen = []
    for number in range(len(footer.chunks)):
        chunk = run(read_chunk(OneObject(data), "key", footer, number))
        assert len(chunk) <= 2000
        offsets = [header.base_offset for _, header in iterate_headers(chunk)]
        assert offsets[0] == footer.chunks[number].base_offset
        assert {footer.chunk_at(offset) for offset in offsets} == {number}
        seen += offsets
    assert seen == list(range(300))


def test_a_batch_larger_than_a_chunk_is_a_chunk() -> None:
    data = batches(0, 1, value=b"x" * 5000) + batches(1, 2) + batches(2, 3, value=b"y" * 9000)
    complete, entry = run(build(sealed(0, 3, data)))
    footer = Footer.decode(complete[entry.footer :])
    assert [chunk.base_offset for chunk in footer.chunks] == [0, 1, 2]


def test_pieces_are_small_and_the_same_each_time() -> None:
    segment = sealed(0, 100)

    async def pieces() -> list[bytes]:
        making = SegmentBuild(FOLDER, segment, 5, "name")
        return [piece async for piece in making.pieces(in_thread)]

    first = run(pieces())
    assert max(map(len, first)) <= 700
    assert first == run(pieces())


def test_every_flipped_byte_is_noticed() -> None:
    data, entry = run(build(sealed(0, 30)))
    complete = Footer.decode(data[entry.footer :])

    async def read_all(store: OneObject) -> None:
        footer = await read_footer(store, "key", entry)
        for number in range(len(footer.chunks)):
            await read_chunk(store, "key", footer, number)
        for name in footer.sections:
            await read_section(store, "key", footer, name)

    run(read_all(OneObject(data)))
    assert complete.size < len(data)
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(BadObjectError, match="key"):
            run(read_all(OneObject(bytes(damaged))))


def test_a_footer_is_found_without_a_manifest() -> None:
    data, entry = run(build(sealed(0, 30)))
    footer, found = run(find_footer(OneObject(data), f"folder/{entry.key}", len(data)))
    assert found == entry
    assert footer.topic == "orders"


@pytest.mark.parametrize("length", [0, 5, TRAILER_SIZE, 200, -1])
def test_a_truncated_object_is_an_error_with_its_key(length: int) -> None:
    data, _ = run(build(sealed(0, 30)))
    cut = data[:length]
    with pytest.raises(BadObjectError, match="the key"):
        run(find_footer(OneObject(cut), "the key", len(cut)))


def test_a_foreign_object_is_an_error() -> None:
    with pytest.raises(BadObjectError, match="written by another program"):
        run(find_footer(OneObject(b"PK" * 100), "key", 200))
    announced = b"x" * 20 + (100).to_bytes(4, "big") + segment_object.MAGIC
    with pytest.raises(BadObjectError, match="does not fit"):
        run(find_footer(OneObject(announced), "key", len(announced)))


def test_the_first_batch_may_begin_below_the_base() -> None:
    data, entry = run(build(sealed(7, 20, batches(5, 20, records=5))))
    footer = Footer.decode(data[entry.footer :])
    assert (entry.base, footer.chunks[0].base_offset) == (7, 5)
    assert footer.chunk_at(7) == 0


def test_invalid_segment_is_not_copied() -> None:
    for segment in (
        sealed(0, 30, batches(0, 30)[:-3]),  # torn
        sealed(0, 30, batches(0, 31)),  # too long
        sealed(5, 30, batches(0, 30)),  # begins too early
        sealed(0, 30, batches(0, 10) + b"x" * 100),
    ):
        with pytest.raises(BadObjectError):
            run(build(segment))
