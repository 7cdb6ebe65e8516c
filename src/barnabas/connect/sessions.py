"""One Spark session for several connectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from barnabas.connect.compiling import ConnectorPlan
from barnabas.connect.declaration import Connector
from barnabas.connect.ends import fields_of
from barnabas.connect.orders import state_url
from barnabas.spark.errors import PipelineError
from barnabas.spark.jars import SETTING as JARS
from barnabas.pipelines.running.flow_sessions import FlowSession
from barnabas.pipelines.running.sessions import pipeline_session
from barnabas.pipelines.running.state_lock import StateLock

UTC = "-Duser.timezone=UTC"  # databases without time zones, and Spark, mean the same times then


@contextmanager
def connectors_session(connectors: Sequence[Connector], master: str) -> Iterator[SparkSession]:
    """PipelineError if they want different settings of one Spark."""
    configuration: dict[str, str] = {}
    for one in connectors:
        for name, value in one.configuration.items():
            if name.startswith("spark.") and configuration.setdefault(name, value) != value:
                raise PipelineError(
                    f"The connectors say different things about {name}: run them apart, or let them say the same."
                )
    jars = {jar.strip() for one in connectors for jar in one.configuration.get(JARS, "").split(",")}
    configuration[JARS] = ",".join(sorted(jars - {""}))
    name = connectors[0].name if len(connectors) == 1 else f"{len(connectors)} connectors"
    with pipeline_session(name, configuration, master=master, java_options=[UTC]) as session:
        yield session


def check_together(connectors: Sequence[Connector]) -> None:
    """PipelineError if two of them would be in each other's way, or if one runs already."""
    for what in ("name", "storage"):
        counted = Counter(getattr(one, what) for one in connectors)
        twice = [value for value, number in counted.items() if number > 1]
        if twice:
            raise PipelineError(f"Two connectors have the {what} {twice[0]}; give each its own.")
    for one in connectors:
        StateLock(one.name, state_url(one)).check()


def fields_by_name(connectors: Sequence[Connector], master: str) -> dict[str, list[str]]:
    """Of each, the fields that its sink would get; PipelineError for what does not fit."""
    with connectors_session(connectors, master) as session:
        plans = {one.name: ConnectorPlan(one, FlowSession.beside(session)).plan() for one in connectors}
        return {name: fields_of(plan.queries[0].frame.columns) for name, plan in plans.items()}
