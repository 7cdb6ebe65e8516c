"""The four codecs of record batches: the only module that imports compression libraries.

The sender of a batch chooses its content, so every decompression has a bound on its output: a length
that the data declare is compared with the bound before anything is allocated for it, and output is never
collected beyond the bound. The number of parts (members, blocks) is bounded too, because parts without contents
cost time and give no output. Frames are written so that Kafka's Java reader takes them: lz4 with independent blocks,
snappy in the framing of xerial's snappy-java.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from struct import error as StructError  # noqa: N812 - struct names its exception in lower case

import cramjam
import zstandard

from barnabas.common.files import Bytes

DECOMPRESSED_LIMIT = 100 * 1024 * 1024
"""The usual bound: the default of `socket.request.max.bytes`, more than anybody can send uncompressed."""


MOST_BLOCKS = 100_000
"""Of snappy or lz4 in one batch, for those who read: 3 GB in the blocks of 32 KB that snappy-java writes. What a broker
accepts is less (`barnabas.validate.max.blocks`)."""
BLOCKS_PER_MEMBER = 10
"""A member of gzip takes ten times as long as a block. Every producer that is known writes one."""


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
"""Values of `compression.type` (topics say `uncompressed`, producers `none`); `producer` is no codec."""


MAGIC: dict[int, bytes] = {
    Codec.GZIP: b"\x1f\x8b",
    Codec.LZ4: b"\x04\x22\x4d\x18",
    Codec.ZSTD: b"\x28\xb5\x2f\xfd",
}
"""What data of a codec begin with. Snappy's may come without a frame, and so without a magic."""

HIGHEST_RATIO: dict[int, int] = {
    Codec.NONE: 1,
    Codec.GZIP: 1032,  # deflate: two bits for a copy of 258 bytes
    Codec.SNAPPY: 22,  # three bytes for a copy of 64
    Codec.LZ4: 255,
    Codec.ZSTD: 32768,  # four bytes for a block of 128 KiB that repeats one byte
}
"""How many bytes can come out of one, whatever the data are."""


class CompressionError(Exception):
    """The data are no whole frame of their codec, or would grow beyond the bound."""


class BeyondLimitError(CompressionError):
    """They may be good, and are too large."""


def compress(codec: int, data: Bytes, level: int | None = None) -> bytes:
    """`level` None is the codec's own default; snappy has no levels."""
    return _compressor(codec)(data, level)


def decompress(codec: int, data: Bytes, limit: int = DECOMPRESSED_LIMIT) -> bytes:
    """The data behind one compressed block, at most `limit` bytes of it; CompressionError otherwise."""
    return bytes(unpack(codec, data, limit))


def unpack(
    codec: int, data: Bytes, limit: int = DECOMPRESSED_LIMIT, most_blocks: int = MOST_BLOCKS
) -> bytes | bytearray:
    """The same without a copy at the end, for those who only look: a large batch is in memory once."""
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise CompressionError(f"compression codec {codec} is unknown: known are 0 to {max(_DECOMPRESSORS)}")
    return decompressor(memoryview(data), limit, most_blocks)


def begins_like(codec: int, data: memoryview) -> bool:
    """Could this be data of the codec, by its first bytes? False for a codec that there is not."""
    magic = MAGIC.get(codec)
    if magic is not None:
        return data[: len(magic)] == magic
    return codec == Codec.SNAPPY and (
        data[: len(_XERIAL_MAGIC)] == _XERIAL_MAGIC or _raw_snappy_length(data) > 0
    )


def _compressor(codec: int) -> Callable[[Bytes, int | None], bytes]:
    compressor = _COMPRESSORS.get(codec)
    if compressor is None:
        raise CompressionError(f"compression codec {codec} is unknown: known are 0 to {max(_COMPRESSORS)}")
    return compressor


def _beyond(limit: int) -> CompressionError:
    return BeyondLimitError(f"the data decompress to more than the limit of {limit} bytes")


def _too_many(what: str) -> CompressionError:
    return CompressionError(f"{what} (brokers: barnabas.validate.max.blocks)")


# ---- none ----------------------------------------------------------------------------------------


def _copy(data: Bytes, level: int | None) -> bytes:
    return bytes(data)


def _copy_bounded(data: memoryview, limit: int, most_blocks: int) -> bytes:
    if len(data) > limit:
        raise _beyond(limit)
    return bytes(data)


# ---- gzip ----------------------------------------------------------------------------------------

_GZIP_WINDOW = 31  # the largest window (15), in a gzip wrapper (16)


def _gzip(data: Bytes, level: int | None) -> bytes:
    return zlib.compress(data, zlib.Z_DEFAULT_COMPRESSION if level is None else level, _GZIP_WINDOW)


_GZIP_CHUNK = 64 * 1024
"""What one call is given: what it leaves of that is copied, and a member may be as short as 20 bytes."""
_GZIP_STEP = 1024 * 1024
"""What one call gives."""


def _gunzip(data: memoryview, limit: int, most_blocks: int) -> bytes | bytearray:
    output = bytearray()
    position = 0
    most = -(-most_blocks // BLOCKS_PER_MEMBER)
    for _ in range(most):
        position = _gunzip_member(data, position, output, limit)
        if position == len(data):
            return output
    raise _too_many(f"gzip: more than {most} members")


def _gunzip_member(data: memoryview, position: int, output: bytearray, limit: int) -> int:
    """Append the contents of the member at `position` to the output; where the next one begins."""
    member = zlib.decompressobj(_GZIP_WINDOW)
    while not member.eof:
        chunk = data[position : position + _GZIP_CHUNK]
        if not chunk:
            raise CompressionError("gzip: the data end before the stream does")
        try:
            # One byte more than allowed tells "exactly the limit" from "more".
            output += member.decompress(chunk, min(_GZIP_STEP, limit + 1 - len(output)))
        except zlib.error as error:
            raise CompressionError(f"gzip: {error}") from error
        if len(output) > limit:
            raise _beyond(limit)
        position += len(chunk) - len(member.unused_data) - len(member.unconsumed_tail)
    return position


# ---- snappy --------------------------------------------------------------------------------------

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = (
    _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
)  # version, lowest version that can read it
_XERIAL_BLOCK_SIZE = 32 * 1024  # what snappy-java writes
_BLOCK_LENGTH = Struct(">i")


def _snappy(data: Bytes, level: int | None) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: memoryview, limit: int, most_blocks: int) -> bytes | bytearray:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnappy_block(data, limit)  # some clients leave the framing out, and Kafka accepts that
    if len(data) < len(_XERIAL_HEADER):
        raise CompressionError("snappy: the data end inside the header of xerial's framing")
    position, output = len(_XERIAL_HEADER), bytearray()
    for _ in range(most_blocks):
        if position == len(data):
            return output
        block, position = _xerial_block(data, position)
        output += _unsnappy_block(block, limit - len(output))
    raise _too_many(f"snappy: more than {most_blocks} blocks")


def _xerial_block(data: memoryview, position: int) -> tuple[memoryview, int]:
    try:
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
    except StructError:
        raise CompressionError("snappy: the data end inside the length of a block") from None
    start = position + _BLOCK_LENGTH.size
    if not 0 <= length <= len(data) - start:
        raise CompressionError(f"snappy: a block of {length} bytes where {len(data) - start} are left")
    return data[start : start + length], start + length


def _unsnappy_block(block: memoryview, limit: int) -> bytearray:
    if not block:
        raise CompressionError("snappy: a block is empty, where even no data take one byte")
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
    """What a block without a frame says that it decompresses to; 0 when it is no block."""
    try:
        return int(cramjam.snappy.decompress_raw_len(data))
    except cramjam.DecompressionError:
        return 0


# ---- lz4 -----------------------------------------------------------------------------------------

_LZ4_MAGIC = 0x184D2204
_LZ4_HIGHEST_LEVEL = 12  # of the library; Kafka's setting goes to 17, where lz4-java clamps it too
_LZ4_BLOCK_SIZES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_LZ4_BLOCK_CHECKSUM, _LZ4_CONTENT_SIZE, _LZ4_CONTENT_CHECKSUM, _LZ4_DICTIONARY = 0x10, 0x08, 0x04, 0x01
_LZ4_STORED = 0x80000000  # the bit in a block's length that says "not compressed"
_LZ4_START = Struct("<IBB")
_LZ4_BLOCK_LENGTH = Struct("<I")


def _lz4(data: Bytes, level: int | None) -> bytes:
    # Kafka's Java reader refuses linked blocks, which are the library's default.
    level = None if level is None else min(level, _LZ4_HIGHEST_LEVEL)
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # the library takes no views here
    return bytes(compressor.finish())


def _unlz4(data: memoryview, limit: int, most_blocks: int) -> bytearray:
    output = bytearray(min(limit, _lz4_output_bound(data, most_blocks)))
    try:
        length = cramjam.lz4.decompress_into(data, output)
    except cramjam.DecompressionError as error:
        if len(output) == limit:
            raise CompressionError(f"lz4: {error} (the limit is {limit} bytes)") from error
        raise CompressionError(f"lz4: {error}") from error
    del output[length:]
    return output


def _lz4_output_bound(data: memoryview, most_blocks: int) -> int:
    """The most that the blocks of the frame can hold: the library writes into a buffer of a fixed size.

    The content size that a frame may declare plays no part in it, because anybody can write anything there.
    """
    try:
        magic, flags, block_byte = _LZ4_START.unpack_from(data)
        largest = _LZ4_BLOCK_SIZES.get(block_byte >> 4 & 7)
        if magic != _LZ4_MAGIC or largest is None:
            raise CompressionError("lz4: the data do not begin with the header of a frame")
        position = 7 + (8 if flags & _LZ4_CONTENT_SIZE else 0) + (4 if flags & _LZ4_DICTIONARY else 0)
        checksum = 4 if flags & _LZ4_BLOCK_CHECKSUM else 0
        return _lz4_blocks_bound(data, position, largest, checksum, most_blocks)
    except StructError:
        raise CompressionError("lz4: the data end before the frame does") from None


def _lz4_blocks_bound(data: memoryview, position: int, largest: int, checksum: int, most_blocks: int) -> int:
    bound = 0
    for _ in range(most_blocks):
        (length,) = _LZ4_BLOCK_LENGTH.unpack_from(data, position)
        if not length:
            return bound
        stored = length & ~_LZ4_STORED
        # lz4 gains a factor of 255 at most
        bound += stored if length & _LZ4_STORED else min(largest, 255 * stored)
        position += _LZ4_BLOCK_LENGTH.size + stored + checksum
    raise _too_many(f"lz4: more than {most_blocks} blocks")


# ---- zstd ----------------------------------------------------------------------------------------

_ZSTD_LARGEST_WINDOW = 1 << 27  # what zstd itself and Kafka's reader accept
_ZSTD_DEFAULT_LEVEL = 3


def _zstd(data: Bytes, level: int | None) -> bytes:
    level = _ZSTD_DEFAULT_LEVEL if level is None else level
    return zstandard.ZstdCompressor(level=level).compress(data)


def _unzstd(data: memoryview, limit: int, most_blocks: int) -> bytes:
    try:
        declared = zstandard.frame_content_size(data)  # -1: the frame does not say
        if declared > limit:
            raise _beyond(limit)
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_LARGEST_WINDOW)
        # The library takes a declared size for the output buffer, and `max_output_size` for it otherwise.
        return decompressor.decompress(data, max_output_size=limit)
    except zstandard.ZstdError as error:
        raise CompressionError(f"zstd: {error} (the limit is {limit} bytes)") from error


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
