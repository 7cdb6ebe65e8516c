"""The four codecs of record batches. Compression libraries are imported here only, each on first use (together 2
MB; many brokers see one codec).

The client controls the compressed data, so every decompression bounds its output: a declared length is checked
before a buffer is allocated, and output beyond the bound is discarded. The number of parts (members, blocks) is
bounded too, because empty parts cost time without producing output. Frames are compatible with Kafka's Java reader:
lz4 with independent blocks, snappy in the framing of xerial's snappy-java.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from struct import Struct
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case

from barnabas.common.files import Bytes

DECOMPRESSED_LIMIT = 100 * 1024 * 1024
"""The default bound: the default of `socket.request.max.bytes`."""


MAX_BLOCKS = 100_000
"""Maximum number of snappy or lz4 blocks per batch for readers: 3 GB in the 32 KB blocks of snappy-java. Brokers
accept fewer (`barnabas.validate.max.blocks`)."""
BLOCKS_PER_MEMBER = 10
"""Maximum number of gzip members: a member takes ten times as long as a block, and all known producers write one."""


class Codec(IntEnum):
    """The compression bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_BY_NAME = {
    "uncompressed": Codec.NONE,
    "none": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""Values of `compression.type` (topics say `uncompressed`, producers `none`); `producer` is not a codec."""


MAGIC: dict[int, bytes] = {
    Codec.GZIP: b"\x1f\x8b",
    Codec.LZ4: b"\x04\x22\x4d\x18",
    Codec.ZSTD: b"\x28\xb5\x2f\xfd",
}
"""Magic bytes of each codec. Raw snappy has no frame and so no magic."""

HIGHEST_RATIO: dict[int, int] = {
    Codec.NONE: 1,
    Codec.GZIP: 1032,  # deflate: two bits for a copy of 258 bytes
    Codec.SNAPPY: 22,  # three bytes for a copy of 64
    Codec.LZ4: 255,
    Codec.ZSTD: 32768,  # four bytes for a block of 128 KiB that repeats one byte
}
"""Largest possible output per input byte."""


class CompressionError(Exception):
    """The data are not a complete frame of the codec, or decompress to more than the bound."""


class BeyondLimitError(CompressionError):
    """The data decompress to more than the bound; they may be valid."""


def compress(codec: int, data: Bytes, level: int | None = None) -> bytes:
    """Compress; `level` None is the codec's default, and snappy has no levels."""
    return _compressor(codec)(data, level)


def decompress(codec: int, data: Bytes, limit: int = DECOMPRESSED_LIMIT) -> bytes:
    """Decompress one block to at most `limit` bytes; CompressionError otherwise."""
    return bytes(unpack(codec, data, limit))


def unpack(
    codec: int, data: Bytes, limit: int = DECOMPRESSED_LIMIT, max_blocks: int = MAX_BLOCKS
) -> bytes | bytearray:
    """Decompress without the final copy, for read-only use: a large batch is in memory once."""
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise CompressionError(f"unknown compression codec {codec}: valid are 0 to {max(_DECOMPRESSORS)}")
    return decompressor(memoryview(data), limit, max_blocks)


def has_magic(codec: int, data: memoryview) -> bool:
    """Check whether the first bytes match the codec; False for an unknown codec."""
    magic = MAGIC.get(codec)
    if magic is not None:
        return data[: len(magic)] == magic
    return codec == Codec.SNAPPY and (
        data[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC or _raw_snappy_length(data) > 0
    )


def _compressor(codec: int) -> Callable[[Bytes, int | None], bytes]:
    compressor = _COMPRESSORS.get(codec)
    if compressor is None:
        raise CompressionError(f"unknown compression codec {codec}: valid are 0 to {max(_COMPRESSORS)}")
    return compressor


def _beyond(limit: int) -> CompressionError:
    return BeyondLimitError(f"the data decompress to more than the limit of {limit} bytes")


def _too_many(what: str) -> CompressionError:
    return CompressionError(f"{what} (brokers: barnabas.validate.max.blocks)")


# ---- none ----------------------------------------------------------------------------------------


def _copy(data: Bytes, level: int | None) -> bytes:
    return bytes(data)


def _copy_bounded(data: memoryview, limit: int, max_blocks: int) -> bytes:
    if len(data) > limit:
        raise _beyond(limit)
    return bytes(data)


# ---- gzip ----------------------------------------------------------------------------------------

_GZIP_WINDOW = 31  # the largest window (15), in a gzip wrapper (16)


def _gzip(data: Bytes, level: int | None) -> bytes:
    return zlib.compress(data, zlib.Z_DEFAULT_COMPRESSION if level is None else level, _GZIP_WINDOW)


_GZIP_CHUNK = 64 * 1024
"""Input per call: unused input is copied, and a member can be as short as 20 bytes."""
_GZIP_STEP = 1024 * 1024
"""Output per call."""


def _gunzip(data: memoryview, limit: int, max_blocks: int) -> bytes | bytearray:
    output = bytearray()
    position = 0
    maximum = -(-max_blocks // BLOCKS_PER_MEMBER)
    for _ in range(maximum):
        position = _gunzip_member(data, position, output, limit)
        if position == len(data):
            return output
    raise _too_many(f"gzip: more than {maximum} members")


def _gunzip_member(data: memoryview, position: int, output: bytearray, limit: int) -> int:
    """Append the contents of the member at `position` to the output; returns the position of the next member."""
    member = zlib.decompressobj(_GZIP_WINDOW)
    while not member.eof:
        chunk = data[position : position + _GZIP_CHUNK]
        if not chunk:
            raise CompressionError("gzip: truncated stream")
        try:
            # One byte above the limit distinguishes "exactly the limit" from "more".
            output += member.decompress(chunk, min(_GZIP_STEP, limit + 1 - len(output)))
        except zlib.error as error:
            raise CompressionError(f"gzip: {error}") from error
        if len(output) > limit:
            raise _beyond(limit)
        position += len(chunk) - len(member.unused_data) - len(member.unconsumed_tail)
    return position


# ---- snappy --------------------------------------------------------------------------------------

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version, lowest compatible version
_XERIAL_BLOCK_SIZE = 32 * 1024  # the block size of snappy-java
_BLOCK_LENGTH = Struct(">i")


def _snappy(data: Bytes, level: int | None) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: memoryview, limit: int, max_blocks: int) -> bytes | bytearray:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnappy_block(data, limit)  # some clients omit the framing, and Kafka accepts that
    if len(data) < len(_XERIAL_HEADER):
        raise CompressionError("snappy: truncated xerial header")
    position, output = len(_XERIAL_HEADER), bytearray()
    for _ in range(max_blocks):
        if position == len(data):
            return output
        block, position = _xerial_block(data, position)
        output += _unsnappy_block(block, limit - len(output))
    raise _too_many(f"snappy: more than {max_blocks} blocks")


def _xerial_block(data: memoryview, position: int) -> tuple[memoryview, int]:
    try:
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
    except StructError:
        raise CompressionError("snappy: truncated block length") from None
    start = position + _BLOCK_LENGTH.size
    if not 0 <= length <= len(data) - start:
        raise CompressionError(f"snappy: block of {length} bytes, but {len(data) - start} are left")
    return data[start : start + length], start + length


def _unsnappy_block(block: memoryview, limit: int) -> bytearray:
    import cramjam

    if not block:
        raise CompressionError("snappy: empty block")
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > limit:
            raise _beyond(limit)
        output = bytearray(length)
        cramjam.snappy.decompress_raw_into(block, output)
        return output
    except cramjam.DecompressionError as error:
        raise CompressionError(str(error)) from error


def _raw_snappy_length(data: memoryview) -> int:
    """The declared uncompressed length of a raw block; 0 if it is not a valid block."""
    import cramjam

    try:
        return int(cramjam.snappy.decompress_raw_len(data))
    except cramjam.DecompressionError:
        return 0


# ---- lz4 -----------------------------------------------------------------------------------------

_LZ4_MAGIC = 0x184D2204
_LZ4_HIGHEST_LEVEL = 12  # of the library; Kafka allows 17, which lz4-java clamps too
_LZ4_BLOCK_SIZES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_LZ4_BLOCK_CHECKSUM, _LZ4_CONTENT_SIZE, _LZ4_CONTENT_CHECKSUM, _LZ4_DICTIONARY = 0x10, 0x08, 0x04, 0x01
_LZ4_STORED = 0x80000000  # bit in the block length: not compressed
_LZ4_START = Struct("<IBB")
_LZ4_BLOCK_LENGTH = Struct("<I")


def _lz4(data: Bytes, level: int | None) -> bytes:
    import cramjam

    # Kafka's Java reader rejects linked blocks, the library's default.
    level = None if level is None else min(level, _LZ4_HIGHEST_LEVEL)
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # the library does not accept views here
    return bytes(compressor.finish())


def _unlz4(data: memoryview, limit: int, max_blocks: int) -> bytearray:
    import cramjam

    output = bytearray(min(limit, _lz4_output_bound(data, max_blocks)))
    try:
        length = cramjam.lz4.decompress_into(data, output)
    except cramjam.DecompressionError as error:
        if len(output) == limit:
            raise BeyondLimitError(f"lz4: {error} (the limit is {limit} bytes)") from error
        raise CompressionError(f"lz4: {error}") from error
    del output[length:]
    return output


def _lz4_output_bound(data: memoryview, max_blocks: int) -> int:
    """Upper bound on the output of a frame: the library writes into a buffer of a fixed size.

    The content size that a frame declares is ignored, because the client controls it.
    """
    try:
        magic, flags, block_byte = _LZ4_START.unpack_from(data)
        largest = _LZ4_BLOCK_SIZES.get(block_byte >> 4 & 7)
        if magic != _LZ4_MAGIC or largest is None:
            raise CompressionError("lz4: invalid frame header")
        position = 7 + (8 if flags & _LZ4_CONTENT_SIZE else 0) + (4 if flags & _LZ4_DICTIONARY else 0)
        checksum = 4 if flags & _LZ4_BLOCK_CHECKSUM else 0
        return _lz4_blocks_bound(data, position, largest, checksum, max_blocks)
    except StructError:
        raise CompressionError("lz4: truncated frame") from None


def _lz4_blocks_bound(data: memoryview, position: int, largest: int, checksum: int, max_blocks: int) -> int:
    bound = 0
    for _ in range(max_blocks):
        (length,) = _LZ4_BLOCK_LENGTH.unpack_from(data, position)
        if not length:
            return bound
        stored = length & ~_LZ4_STORED
        # lz4 expands by at most 255
        bound += stored if length & _LZ4_STORED else min(largest, 255 * stored)
        position += _LZ4_BLOCK_LENGTH.size + stored + checksum
    raise _too_many(f"lz4: more than {max_blocks} blocks")


# ---- zstd ----------------------------------------------------------------------------------------

_ZSTD_LARGEST_WINDOW = 1 << 27  # the maximum of zstd itself and of Kafka's reader
_ZSTD_DEFAULT_LEVEL = 3
_ZSTD_PIECE = 128 * 1024  # a block


def _zstd(data: Bytes, level: int | None) -> bytes:
    import zstandard

    level = _ZSTD_DEFAULT_LEVEL if level is None else level
    return zstandard.ZstdCompressor(level=level).compress(data)


def _unzstd(data: memoryview, limit: int, max_blocks: int) -> bytes:
    import zstandard

    try:
        declared = zstandard.frame_content_size(data)  # -1: the frame does not declare its size
        if declared > limit:
            raise _beyond(limit)
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_LARGEST_WINDOW)
        # The library allocates the declared size, or `max_output_size` without one.
        return decompressor.decompress(data, max_output_size=limit)
    except zstandard.ZstdError as error:
        if _holds_more(data, limit):
            raise _beyond(limit) from error
        raise CompressionError(f"zstd: {error}") from error


def _holds_more(data: memoryview, limit: int) -> bool:
    """Check whether a frame without a declared size, as Java clients write them, holds more than `limit` bytes."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_LARGEST_WINDOW)
    with suppress(zstandard.ZstdError), decompressor.stream_reader(data) as reader:
        left = limit
        while left >= 0 and (piece := reader.read(_ZSTD_PIECE)):
            left -= len(piece)
        return left < 0
    return False


_COMPRESSORS: dict[int, Callable[[Bytes, int | None], bytes]] = {
    Codec.NONE: _copy,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
_DECOMPRESSORS: dict[int, Callable[[memoryview, int, int], bytes | bytearray]] = {
    Codec.NONE: _copy_bounded,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
