"""What `barnabas.yml` says about datasets and flows, against those that the definitions have. No Spark is asked."""

from __future__ import annotations

from pyspark.pipelines.output import MaterializedView, Output, Table

from barnabas.pipelines.definitions.graph import Graph
from barnabas.pipelines.definitions.settings import Settings
from barnabas.pipelines.errors import PipelineError


def check_names(settings: Settings, graph: Graph) -> None:
    """A rule about a dataset that is not there guards nothing."""
    named = [("quality rule", rule.dataset) for rule in settings.quality]
    named += [("alarm", rule.dataset) for rule in settings.alarms]
    named += [("lake", name) for name in settings.lake]
    for what, name in named:
        if name not in graph.outputs:
            known = ", ".join(sorted(graph.outputs))
            raise PipelineError(f"The {what} for {name} has no dataset of that name; there are {known}.")
    for name in settings.flows:
        if name not in graph.flows:
            known = ", ".join(sorted(graph.flows))
            raise PipelineError(f"`flows` names {name}, which is none; there are {known}.")
    for name in settings.lake:
        _check_lake(graph.outputs[name])


def _check_lake(output: Output) -> None:
    """Files of a lake are only ever added to."""
    if isinstance(output, MaterializedView):
        raise PipelineError(
            f"The lake {output.name} is a materialized view, which is computed anew each time; a lake wants a table "
            f"that a stream fills: make {output.name} a streaming table, or take it out of `lake`."
        )
    if not isinstance(output, Table):
        raise PipelineError(
            f"The lake {output.name} is no table; make {output.name} one, or take it out of `lake`."
        )
