"""Rows that replace the ones before them with the same key, written to a topic by the driver.

Spark lets no Python sink take the output mode `update`, so these go by `foreachBatch`. What changes in a micro-batch of
an aggregation are its groups: few rows, which one producer writes in less time than Spark plans a write in. A batch
that is run again writes the same values to the same keys: at least once is as good as once here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row

from barnabas.client.producer import Producer
from barnabas.spark.broker_link import BrokerLink
from barnabas.spark.errors import PipelineError
from barnabas.spark.options import Options


class Upserts:
    """What `foreachBatch` calls for one flow; `options` are those of the sink."""

    def __init__(self, flow: str, options: Mapping[str, str]) -> None:
        checked = Options(options, "sink")
        self._flow = flow
        self._topic = checked.text("topic")
        self._connection = checked.client_settings().link

    def __call__(self, frame: DataFrame, batch: int) -> None:
        rows = frame.collect()
        if not rows:
            return
        missing = {"key", "value"} - set(frame.columns)
        if missing:
            raise PipelineError(f"{self._flow} is written by key: it wants the columns key and value.")
        link = BrokerLink(**self._connection)  # for each batch: nobody says when the query has ended
        try:
            link.run(self._write(link, rows))
        finally:
            link.close()

    async def _write(self, link: BrokerLink, rows: Sequence[Row]) -> None:
        async with Producer(link.client) as producer:
            for row in rows:
                topic = self._topic or row["topic"]
                await producer.enqueue(topic, _bytes(row["value"]), _bytes(row["key"]))
            await producer.flush()


def _bytes(value: Any) -> bytes | None:
    return None if value is None else value.encode() if isinstance(value, str) else bytes(value)
