"""Pipelines as files: Spark's layout of a declarative pipeline, and Barnabas' additions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.pipelines.definitions.files import BOOTSTRAP as BOOTSTRAP
    from barnabas.pipelines.definitions.files import PipelineFiles as PipelineFiles
    from barnabas.pipelines.definitions.files import read_pipeline as read_pipeline
    from barnabas.pipelines.definitions.settings import Compaction as Compaction
    from barnabas.pipelines.definitions.settings import FlowSettings as FlowSettings
    from barnabas.pipelines.definitions.settings import Lake as Lake
    from barnabas.pipelines.definitions.settings import PipelineSettings as PipelineSettings
    from barnabas.pipelines.definitions.settings import RequiredTopic as RequiredTopic
    from barnabas.pipelines.definitions.settings import SchemaEvolution as SchemaEvolution
    from barnabas.pipelines.definitions.templates import copy_template as copy_template
    from barnabas.pipelines.definitions.templates import generator_of as generator_of
else:
    __getattr__ = lazy_exports(__name__)
