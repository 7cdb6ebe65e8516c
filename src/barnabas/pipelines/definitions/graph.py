"""Collects the declarations of `pyspark.pipelines` decorators for the runner.

Spark's runner sends them to a server as each file is loaded. Here they are kept and run as Structured Streaming
queries of this session.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry
from pyspark.pipelines.output import Output

from barnabas.spark import PipelineError


class Graph(GraphElementRegistry):
    """Outputs by name, and their flows."""

    def __init__(self, read_sql: Callable[[Graph, str, Path], None]) -> None:
        self.outputs: dict[str, Output] = {}
        self.flows: dict[str, Flow] = {}
        self._read_sql = read_sql

    def register_output(self, output: Output) -> None:
        if output.name in self.outputs:
            raise PipelineError(f"{output.name} is defined twice; a dataset has one definition.")
        self.outputs[output.name] = output

    def register_flow(self, flow: Flow) -> None:
        if flow.name in self.flows:
            raise PipelineError(f"The flow {flow.name} is defined twice; give one of them another name.")
        self.flows[flow.name] = flow

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        raise PipelineError(
            f"{flow.target} is filled by an Auto CDC flow, which only Spark's own runner can do: "
            "run this pipeline with `spark-pipelines run`."
        )

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        self._read_sql(self, sql_text, file_path)

    def flows_into(self, output: str) -> list[Flow]:
        return [flow for flow in self.flows.values() if flow.target == output]

    def check(self) -> None:
        """Check that every flow has a target and every output has a flow."""
        for flow in self.flows.values():
            if flow.target not in self.outputs:
                raise PipelineError(f"The flow {flow.name} fills {flow.target}, which nothing defines.")
        for name in self.outputs:
            if not self.flows_into(name):
                raise PipelineError(f"{name} is defined, but no flow fills it.")
