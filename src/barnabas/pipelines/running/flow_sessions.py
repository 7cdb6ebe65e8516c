"""The session in which a pipeline's definitions are evaluated: its streams leave it to the runner to commit progress.

A view is defined once and read by many flows, and each flow is a query of its own with a progress of its own. A source
is not told which query it serves, so all of them would commit to one group. Sources that were read in this session
commit nothing, and the runner commits what each flow has reached to a group of the flow (`groups.py`). An author who
names a group, or wants no progress committed, is obeyed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

FORMAT = "barnabas"
LEFT_TO_THE_FLOW = "__progressoftheflow"
"""An option that is nobody's but ours: it marks, in the plan of a query, a source whose progress the runner commits."""

_CHOICES_OF_THE_AUTHOR = frozenset({"kafka.group.id", "groupidprefix", "commitprogress"})


class FlowSession(SparkSession):
    """A new session of the same Spark: settings and views of several pipelines do not meet."""

    @classmethod
    def beside(cls, session: SparkSession) -> FlowSession:
        return cls(session._sc, session._jsparkSession.newSession())

    @property
    def readStream(self) -> DataStreamReader:  # noqa: N802 - Spark's name
        return _FlowReader(self)


class _FlowReader(DataStreamReader):
    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self._is_ours = False
        self._is_chosen = False

    def format(self, source: str) -> DataStreamReader:
        self._is_ours = source.lower() == FORMAT
        return super().format(source)

    def option(self, key: str, value: Any) -> DataStreamReader:
        self._is_chosen |= key.lower() in _CHOICES_OF_THE_AUTHOR
        return super().option(key, value)

    def options(self, **options: Any) -> DataStreamReader:
        self._is_chosen |= any(key.lower() in _CHOICES_OF_THE_AUTHOR for key in options)
        return super().options(**options)

    def load(
        self,
        path: str | None = None,
        format: str | None = None,  # noqa: A002 - Spark's name
        schema: Any = None,
        **options: Any,
    ) -> DataFrame:
        if format is not None:
            self.format(format)
        self.options(**options)
        if self._is_ours and not self._is_chosen:
            super().options(commitProgress="false", **{LEFT_TO_THE_FLOW: "true"})
        return super().load(path, schema=schema)
