"""The codecs against the reference libraries and decompression bombs."""

import gzip
import io
import random
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import codec as kafka_python

from barnabas.records.compression import HIGHEST_RATIO, Codec, CompressionError, compress, decompress, unpack
from tests.support.builders.records import CODECS

COMPRESSED = CODECS[1:]
SAMPLE = b"".join(b"line %d of something that compresses\n" % number for number in range(5000))


@given(st.binary(max_size=5000), st.sampled_from(CODECS))
@settings(max_examples=100)
def test_any_bytes_come_back(data: bytes, codec: Codec) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 3_000_000])
def test_sizes_around_block_limits_come_back(codec: Codec, size: int) -> None:
    data = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)
    assert decompress(codec, compress(codec, data), size) == data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, SAMPLE)
    assert len(packed) < len(SAMPLE) / 2
    assert decompress(codec, packed, len(SAMPLE)) == SAMPLE
    for limit in (len(SAMPLE) - 1, 1, 0):
        with pytest.raises(CompressionError, match="limit"):
            decompress(codec, packed, limit)


@pytest.mark.parametrize("codec", CODECS)
def test_views_are_taken_as_they_are(codec: Codec) -> None:
    packed = compress(codec, memoryview(SAMPLE)[10:-10])
    assert decompress(codec, memoryview(bytearray(b"xx" + packed + b"yy"))[2:-2]) == SAMPLE[10:-10]


def zstd_stream(data: bytes) -> bytes:
    """Without the content size in the header, as Java writes it."""
    target = io.BytesIO()
    with zstandard.ZstdCompressor(write_content_size=False).stream_writer(target, closefd=False) as writer:
        writer.write(data)
    return target.getvalue()


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        (Codec.GZIP, gzip.compress(SAMPLE, mtime=0)),
        (Codec.GZIP, gzip.compress(SAMPLE[:1000], mtime=0) + gzip.compress(SAMPLE[1000:], mtime=0)),
        (Codec.SNAPPY, snappy.compress(SAMPLE)),
        (Codec.SNAPPY, kafka_python.snappy_encode(SAMPLE)),
        (Codec.SNAPPY, kafka_python.snappy_encode(SAMPLE, xerial_compatible=False)),
        (Codec.LZ4, lz4.frame.compress(SAMPLE)),
        (Codec.LZ4, lz4.frame.compress(SAMPLE, block_linked=True, content_checksum=True, store_size=True)),
        (Codec.LZ4, lz4.frame.compress(SAMPLE, block_size=7, block_checksum=True, block_linked=False)),
        (Codec.LZ4, lz4.frame.compress(random.Random(1).randbytes(10_000) + SAMPLE)),
        (Codec.LZ4, kafka_python.lz4_encode(SAMPLE)),
        (Codec.ZSTD, zstandard.compress(SAMPLE)),
        (Codec.ZSTD, zstandard.compress(SAMPLE, 19)),
        (Codec.ZSTD, zstd_stream(SAMPLE)),
    ],
)
def test_frames_of_the_reference_libraries_are_read(codec: Codec, packed: bytes) -> None:
    assert decompress(codec, packed, 1_000_000).endswith(SAMPLE)


@pytest.mark.parametrize(
    ("codec", "unpack"),
    [
        (Codec.GZIP, gzip.decompress),
        (Codec.SNAPPY, kafka_python.snappy_decode),
        (Codec.LZ4, lz4.frame.decompress),
        (Codec.ZSTD, zstandard.decompress),
    ],
)
def test_our_frames_are_read_by_the_reference_libraries(
    codec: Codec, unpack: Callable[[bytes], bytes]
) -> None:
    assert unpack(compress(codec, SAMPLE)) == SAMPLE


def test_lz4_blocks_are_independent_because_kafkas_java_reader_demands_it() -> None:
    assert lz4.frame.get_frame_info(compress(Codec.LZ4, SAMPLE))["block_linked"] is False


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(CompressionError, match="unknown"):
        decompress(codec, b"", 10)
    with pytest.raises(CompressionError, match="unknown"):
        compress(codec, b"")


@pytest.mark.parametrize("codec", COMPRESSED)
def test_data_cut_short_are_refused(codec: Codec) -> None:
    packed = compress(codec, SAMPLE)
    lengths = {0, 1, 2, 7, 8, 16, 17, 20, len(packed) // 2, len(packed) - 9, len(packed) - 1}
    if codec is Codec.SNAPPY:
        lengths.remove(16)  # the framing has no end mark: a header alone is a complete, empty stream
    for length in lengths:
        with pytest.raises(CompressionError):
            decompress(codec, packed[:length])


@pytest.mark.parametrize("codec", COMPRESSED)
def test_random_damage_is_a_compression_error_or_other_data_within_the_limit(codec: Codec) -> None:
    seeded = random.Random(codec)
    packed = compress(codec, SAMPLE[:4000])
    for _ in range(3000):
        damaged = bytearray(packed)
        for _ in range(seeded.randint(1, 5)):
            damaged[seeded.randrange(min(len(damaged), seeded.choice((20, 100, 4000))))] = seeded.randrange(
                256
            )
        with suppress(CompressionError):
            assert len(decompress(codec, damaged, 50_000)) <= 50_000


@given(st.binary(max_size=100), st.sampled_from(COMPRESSED))
def test_garbage_is_a_compression_error(data: bytes, codec: Codec) -> None:
    with suppress(CompressionError):
        assert len(decompress(codec, data, 1000)) <= 1000


# ---- bombs -----------------------------------------------------------------------------------------

BOMB_SIZE = 1_000_000
CAP = 10_000_000


def gzip_bomb() -> bytes:
    """Header, and deflate blocks of a megabyte of zeros, each a kilobyte long."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = deflate.compress(bytes(1 << 20)) + deflate.flush(zlib.Z_FULL_FLUSH)
    header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    return header + block * (BOMB_SIZE // len(block))


def snappy_bomb() -> bytes:
    block = snappy.compress(bytes(1 << 20))
    framed = struct.pack(">i", len(block)) + block
    return bytes(compress(Codec.SNAPPY, b"") + framed * (BOMB_SIZE // len(framed)))


def lz4_bomb() -> bytes:
    frame = lz4.frame.compress(bytes(4 << 20), block_size=7, block_linked=False, store_size=False)
    header, block = frame[:7], frame[7:-4]
    return bytes(header + block * (BOMB_SIZE // len(block)) + bytes(4))


def zstd_bomb() -> bytes:
    """A window of 128 MB, and blocks that repeat one byte 128 KB times."""
    header = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([17 << 3])
    block = (128 << 10 << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = (128 << 10 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\x00"
    return header + block * (BOMB_SIZE // len(block)) + last


def zstd_bomb_that_admits_it() -> bytes:
    return zstandard.compress(bytes(64 << 20))


def zstd_bomb_that_lies() -> bytes:
    """Declares 9 MB and decompresses to 32 GB."""
    bomb = zstd_bomb()
    return bomb[:4] + b"\x80" + bomb[5:6] + (9_000_000).to_bytes(4, "little") + bomb[6:]


def snappy_that_declares_4_gigabytes() -> bytes:
    return b"\xff\xff\xff\xff\x0f" + bytes(1000)


def lz4_of_many_tiny_blocks() -> bytes:
    """Each could hold 4 MB by its frame's header, and holds one byte."""
    header = lz4.frame.compress(b"x", block_size=7, block_linked=False, store_size=False)[:7]
    return bytes(header + (struct.pack("<I", 2) + b"\x10x") * 9_000 + bytes(4))


BOMBS = [
    (Codec.GZIP, gzip_bomb),
    (Codec.SNAPPY, snappy_bomb),
    (Codec.SNAPPY, snappy_that_declares_4_gigabytes),
    (Codec.LZ4, lz4_bomb),
    (Codec.ZSTD, zstd_bomb),
    (Codec.ZSTD, zstd_bomb_that_admits_it),
    (Codec.ZSTD, zstd_bomb_that_lies),
]

MEASURE = """
import resource, sys
from barnabas.records.compression import CompressionError, decompress

def peak_bytes():
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
    except OSError:  # not Linux: this child's own peak, in bytes on macOS
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

codec, path, cap = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
data = open(path, "rb").read()
before = peak_bytes()
try:
    size = len(decompress(codec, data, cap))
    outcome = f"grew to {size}"
except CompressionError:
    outcome = "refused"
print(outcome, peak_bytes() - before, sep=",")
"""


def measure(codec: Codec, bomb: bytes, folder: Path) -> tuple[str, int]:
    """(outcome, peak memory in bytes), in a separate process."""
    path = folder / "bomb"
    path.write_bytes(bomb)
    command = [sys.executable, "-c", MEASURE, str(int(codec)), str(path), str(CAP)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    outcome, extra = done.stdout.strip().split(",")
    return outcome, int(extra)


@pytest.mark.parametrize(("codec", "bomb"), BOMBS, ids=lambda value: getattr(value, "__name__", ""))
def test_cve_2023_34455_and_rustsec_2026_0344_a_bomb_is_refused_within_the_memory_of_the_limit(
    codec: Codec, bomb: Callable[[], bytes], tmp_path: Path
) -> None:
    outcome, extra = measure(codec, bomb(), tmp_path)
    assert outcome == "refused"
    assert extra < 30_000_000


def test_memory_is_proportional_to_the_content_of_blocks(tmp_path: Path) -> None:
    outcome, extra = measure(Codec.LZ4, lz4_of_many_tiny_blocks(), tmp_path)
    assert outcome == "grew to 9000"
    assert extra < 15_000_000


# ---- parts without contents ------------------------------------------------------------------------

MEGABYTE = 1 << 20
EMPTY_MEMBER = gzip.compress(b"")
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
LZ4_HEADER = lz4.frame.compress(b"x", block_linked=False)[:7]
LZ4_END = bytes(4)
ZSTD_EMPTY = zstandard.compress(b"")
ZSTD_HEADER = struct.pack("<I", 0xFD2FB528) + b"\x00\x50"  # no content size, a window of 1 MiB
SKIPPED = struct.pack("<II", 0x184D2A50, 0)

NOTHINGS = {
    "members of gzip": (Codec.GZIP, EMPTY_MEMBER * (MEGABYTE // len(EMPTY_MEMBER))),
    "blocks of snappy": (Codec.SNAPPY, XERIAL + (struct.pack(">i", 1) + b"\x00") * (MEGABYTE // 5)),
    "stored blocks of lz4": (
        Codec.LZ4,
        LZ4_HEADER + struct.pack("<I", 0x80000000) * (MEGABYTE // 4) + LZ4_END,
    ),
    "frames of lz4": (Codec.LZ4, lz4.frame.compress(b"") * (MEGABYTE // 15)),
    "skippable frames of lz4": (Codec.LZ4, lz4.frame.compress(b"x") + SKIPPED * (MEGABYTE // 8)),
    "frames of zstd": (Codec.ZSTD, ZSTD_EMPTY * (MEGABYTE // len(ZSTD_EMPTY))),
    "skippable frames of zstd": (Codec.ZSTD, SKIPPED * (MEGABYTE // 8)),
    "raw blocks of zstd": (Codec.ZSTD, ZSTD_HEADER + bytes(3) * (MEGABYTE // 3) + b"\x01\x00\x00"),
}


@pytest.mark.parametrize("case", NOTHINGS)
def test_a_megabyte_of_empty_parts_costs_no_time(case: str) -> None:
    codec, data = NOTHINGS[case]
    began = time.thread_time()
    with suppress(CompressionError):
        assert len(unpack(codec, data, 1000, max_blocks=10_000)) <= 1
    assert time.thread_time() - began < 0.05


def test_gzip_members_may_cross_input_chunks() -> None:
    noise = [random.Random(seed).randbytes(50_000) for seed in range(20)]
    packed = b"".join(gzip.compress(part) for part in noise) + gzip.compress(bytes(5_000_000))
    assert decompress(Codec.GZIP, packed) == b"".join(noise) + bytes(5_000_000)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_within_the_limit_is_in_memory_once(codec: Codec) -> None:
    packed = compress(codec, bytes(16 * MEGABYTE))
    tracemalloc.start()
    try:
        assert len(unpack(codec, packed, 20 * MEGABYTE)) == 16 * MEGABYTE
        assert tracemalloc.get_traced_memory()[1] < 22 * MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_no_data_come_out_of_less_than_the_highest_ratio(codec: Codec) -> None:
    data = bytes(4 * MEGABYTE)
    assert len(data) <= len(compress(codec, data)) * HIGHEST_RATIO[codec]
