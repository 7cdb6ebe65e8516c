"""The fast path of an append compared with the slow path."""

from pathlib import Path
from random import Random

import pytest

from barnabas.common.errors import KafkaError
from barnabas.log.inspection import InspectionRequiredError
from barnabas.log.log import AppendResult, Log, Origin
from barnabas.records.batch import HEADER, HEADER_SIZE, BatchHeader, read_header, write_crc
from barnabas.records.compression import Codec
from tests.support.builders.logs import NOW, batch, new_log, produced

EXTREMES = (-(2**31), -2, -1, 0, 1, 2, 7, 61, 2**31 - 1)
FIELDS = tuple(name for name in BatchHeader._fields if name != "crc")
WIDTHS = dict(zip(BatchHeader._fields, "qiibIhiqqqhii", strict=True))
BITS = {"b": 7, "h": 15, "i": 31, "q": 63, "I": 32}

Outcome = AppendResult | tuple[int, str] | str


def batches() -> list[bytearray]:
    return [
        batch(b"one"),
        batch(b"one", b"two", b"three"),
        produced(5, 0, 0, b"one"),
        *(
            batch(b"value" * 40, compression=codec)
            for codec in (Codec.GZIP, Codec.LZ4, Codec.SNAPPY, Codec.ZSTD)
        ),
    ]


def changed(original: bytearray, rng: Random) -> bytearray:
    """With one or two fields of its header changed, most often with a checksum that is right, now and then cut."""
    data = bytearray(original)
    fields = read_header(data)._asdict()
    for name in rng.sample(FIELDS, rng.choice((0, 1, 1, 2))):
        known = fields[name]
        value = rng.choice(
            (*EXTREMES, known - 1, known + 1, NOW, NOW + 10**12, known ^ 1 << rng.randrange(8))
        )
        limit = 2 ** BITS[WIDTHS[name]]
        fields[name] = max(-limit, min(value, limit - 1))
    HEADER.pack_into(data, 0, *fields.values())
    if rng.random() < 0.9:
        write_crc(data, 0, len(data))
    if rng.random() < 0.05:
        del data[rng.choice((0, 10, HEADER_SIZE - 1, HEADER_SIZE, len(data) - 1)) :]
    return data


def outcome(log: Log, data: bytearray, *, by_the_long_way: bool) -> Outcome:
    view = memoryview(bytearray(data))
    try:
        if by_the_long_way:
            return log._append_unusual(view, 0, NOW, Origin.CLIENT, None)
        return log.append_as_leader(view, 0, NOW)
    except KafkaError as error:
        return int(error.code), error.message
    except InspectionRequiredError:
        return "unchecked"


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_into_a_log_come_to_the_same(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    short, long = new_log(tmp_path / "short"), new_log(tmp_path / "long")
    taken = 0
    for _ in range(500):
        data = changed(rng.choice(batches()), rng)
        one, other = (
            outcome(short, data, by_the_long_way=False),
            outcome(long, data, by_the_long_way=True),
        )
        assert one == other, data.hex()
        taken += isinstance(one, AppendResult)
    assert 20 < taken < 480
    assert short.log_end_offset == long.log_end_offset
    assert _bytes_of(short) == _bytes_of(long)


def _bytes_of(log: Log) -> bytes:
    return b"".join(segment.file.read(segment.size, 0) for segment in log.segments)
