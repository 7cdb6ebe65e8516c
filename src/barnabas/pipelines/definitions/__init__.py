"""Pipelines as files: Spark's layout of a declarative pipeline, and Barnabas' additions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.pipelines.definitions.files import BOOTSTRAP, PipelineFiles, read_pipeline
    from barnabas.pipelines.definitions.settings import (
        Compaction,
        FlowSettings,
        Lake,
        PipelineSettings,
        TopicWanted,
    )
    from barnabas.pipelines.definitions.templates import copy_template, generator_of
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "files": "BOOTSTRAP PipelineFiles read_pipeline",
            "settings": "Compaction FlowSettings Lake PipelineSettings TopicWanted",
            "templates": "copy_template generator_of",
        },
    )

__all__ = [
    "BOOTSTRAP",
    "Compaction",
    "FlowSettings",
    "Lake",
    "PipelineFiles",
    "PipelineSettings",
    "TopicWanted",
    "copy_template",
    "generator_of",
    "read_pipeline",
]
