"""Arrow batches to and from records, with the compiled loops of `barnabas.records.columnar`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.client.errors import ClientError
from barnabas.common.installation import extra_command

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.fetching import FetchedPartition
    from barnabas.client.producer import ProducerSettings
    from barnabas.records import Block

COLUMNS = ("offset", "timestamp", "key", "value", "headers")
MAX_BLOCK = 1024 * 1024 - 4096  # the broker's max.message.bytes is a MiB


class MissingExtraError(ClientError, ModuleNotFoundError):
    """A package of an extra is not installed."""


def _missing(error: ModuleNotFoundError) -> MissingExtraError:
    return MissingExtraError(f"Arrow batches need {error.name}: {extra_command('table')}")


def encode_rows(
    rows: pa.RecordBatch | pa.Table, topic: str, partitions: int, settings: ProducerSettings
) -> Iterator[Block]:
    try:
        import pyarrow as pa

        from barnabas.records.columnar.encode import BlockEncoder, EncodeTarget
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    encoder = BlockEncoder(settings.codec, settings.level)
    target = EncodeTarget(topic, partitions, MAX_BLOCK)
    for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
        if batch.schema.get_field_index("value") < 0:
            raise ValueError(f"Arrow rows for {topic} need a column `value`; they have {batch.schema.names}")
        yield from encoder.encode(batch, target)


def decode_rows(
    fetched: FetchedPartition, first: int, *, committed_only: bool, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Record batches of one fetched partition, from an offset on."""
    try:
        import pyarrow as pa

        from barnabas.records.columnar.decode import decode
        from barnabas.records.columnar.plan import plan_batches
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    topic, partition = fetched.partition
    end = (1 << 63) - 1
    planned = plan_batches(fetched.records, first, end, fetched.aborted if committed_only else ())
    for found in decode(planned, set(columns), first, end):
        rows = found.rows
        arrays = {
            "topic": pa.DictionaryArray.from_arrays(
                pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([topic])
            ),
            "partition": pa.repeat(pa.scalar(partition, pa.int32()), rows),
            **{name: found.arrays[name] for name in columns},
        }
        yield pa.RecordBatch.from_pydict(arrays)
