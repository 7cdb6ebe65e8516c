"""Reads and validates the two YAML files of a pipeline before Spark starts, so that errors are reported immediately."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from barnabas.common.durations import seconds_of
from barnabas.common.suggestions import did_you_mean
from barnabas.config.document import read_values
from barnabas.pipelines.definitions.settings import AlarmRule, Lake, PipelineSettings
from barnabas.security import WEBHOOKS_VARIABLE, problem_with
from barnabas.spark import PipelineError

SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
SETTINGS_NAME = "barnabas.yml"
BOOTSTRAP = "barnabas.bootstrap.servers"
"""The setting shared by all templates and the runner: the broker address."""
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

_PLACEHOLDER = re.compile(r"\$\{([^}]+)\}")
_UNKNOWN = re.compile(r"unknown field `([^`]+)`")


@dataclass(frozen=True, slots=True)
class PipelineFiles:
    """A pipeline as described by its folder: Spark's file and `barnabas.yml`."""

    folder: Path
    name: str
    storage: str
    configuration: Mapping[str, str]
    libraries: tuple[str, ...]
    settings: PipelineSettings

    @property
    def bootstrap(self) -> str:
        return self.configuration.get(BOOTSTRAP, DEFAULT_BOOTSTRAP)


class _Glob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    include: str


class _Library(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    glob: _Glob


class _Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of Spark's file, as accepted by Spark's reader."""

    name: str
    storage: str
    catalog: str | None = None
    database: str | None = None
    schema: str | None = None
    configuration: dict[str, str] = {}
    libraries: list[_Library] = []


def read_pipeline(folder: Path, overrides: Mapping[str, str] | None = None) -> PipelineFiles:
    """Read both files; PipelineError if invalid. `overrides` take precedence over Spark's `configuration`."""
    path = _find_spec(folder)
    spec = _convert(read_values(path, PipelineError), _Spec, path)
    configuration = {**spec.configuration, **(overrides or {})}
    return PipelineFiles(
        folder.resolve(),
        spec.name,
        spec.storage,
        configuration,
        tuple(library.glob.include for library in spec.libraries),
        _read_settings(folder / SETTINGS_NAME, configuration),
    )


def _find_spec(folder: Path) -> Path:
    for name in SPEC_NAMES:
        if (folder / name).is_file():
            return folder / name
    raise PipelineError(
        f"{folder} does not contain a pipeline: {SPEC_NAMES[0]} is missing. "
        "`barnabas pipeline init FOLDER --template activity` creates one."
    )


def _read_settings(path: Path, configuration: Mapping[str, str]) -> PipelineSettings:
    if not path.exists():
        return PipelineSettings()
    settings: PipelineSettings = _convert(
        _filled(read_values(path, PipelineError), configuration, path), PipelineSettings, path
    )
    for rule in settings.alarms:
        _check_alarm(rule, path)
    _check_alarm_names([rule.name for rule in settings.alarms], path)
    webhook = settings.alarm_targets.webhook
    problem = problem_with(webhook, WEBHOOKS_VARIABLE) if webhook is not None else None
    if problem is not None:
        raise PipelineError(f"{path}: the webhook {webhook!r} {problem}.")
    if settings.dead_letters is None and any(rule.action == "quarantine" for rule in settings.quality):
        raise PipelineError(
            f"{path}: a rule quarantines rows, but `dead_letters: topic:` does not say where to."
        )
    for name, lake in settings.lake.items():
        _check_lake(name, lake, path)
    _check_duration(settings.trigger, "trigger", path)
    _check_duration(settings.refresh, "refresh", path)
    _check_duration(settings.schema_refresh or settings.refresh, "schema_refresh", path)
    for name, flow in settings.flows.items():
        _check_duration(flow.refresh or settings.refresh, f"flows: {name}: refresh", path)
    return settings


def _convert(document: Any, kind: type[Any], path: Path) -> Any:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise PipelineError(f"{path}: {_with_suggestion(str(error), kind)}") from None


def _with_suggestion(text: str, kind: type[Any]) -> str:
    found = _UNKNOWN.search(text)
    hint = did_you_mean(found[1], _known_fields(kind)) if found else ""
    return text + (hint or ".")


def _known_fields(kind: type[Any]) -> list[str]:
    """Return the fields of the section and its subsections, as candidates for a suggestion."""
    names: list[str] = []
    for field in msgspec.structs.fields(kind):
        names.append(field.encode_name)
        for inner in _structs_in(field.type):
            names += _known_fields(inner)
    return names


def _structs_in(annotation: Any) -> list[type[Any]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return [annotation]
    return [found for part in getattr(annotation, "__args__", ()) for found in _structs_in(part)]


def _filled(document: Any, configuration: Mapping[str, str], path: Path) -> Any:
    """Replace `${name}` in strings with values of Spark's configuration, so that each name is defined once."""
    if isinstance(document, dict):
        return {key: _filled(value, configuration, path) for key, value in document.items()}
    if isinstance(document, list):
        return [_filled(value, configuration, path) for value in document]
    if isinstance(document, str):
        return _PLACEHOLDER.sub(lambda found: _setting(found[1], configuration, path), document)
    return document


def _setting(name: str, configuration: Mapping[str, str], path: Path) -> str:
    if name not in configuration:
        raise PipelineError(f"{path}: ${{{name}}} is not in the configuration of {SPEC_NAMES[0]}.")
    return configuration[name]


def _check_alarm(rule: AlarmRule, path: Path) -> None:
    if (rule.above is None) == (rule.below is None):
        raise PipelineError(f"{path}: the alarm {rule.name!r} requires either `above` or `below`.")
    for name, text in (("window", rule.window), ("for", rule.hold), ("lateness", rule.lateness)):
        _check_duration(text, f"`{name}` of the alarm {rule.name!r}", path)


def _check_alarm_names(names: Sequence[str], path: Path) -> None:
    """Reject duplicate names: the name identifies an alarm in event ids and stored states."""
    for name, count in Counter(names).items():
        if count > 1:
            raise PipelineError(f"{path}: {count} alarms have the name {name!r}; names must be unique.")


def _check_lake(name: str, lake: Lake, path: Path) -> None:
    if lake.format == "iceberg" and lake.hours is None:
        raise PipelineError(
            f"{path}: the lake {name} is an Iceberg table: `hours` must name the time by whose hour it is partitioned."
        )
    if lake.properties and lake.format != "iceberg":
        raise PipelineError(f"{path}: the lake {name} has `properties`, which only Iceberg tables have.")
    if lake.compaction is not None:
        _check_duration(lake.compaction.after, f"`after` of the lake {name}", path)
        _check_duration(lake.compaction.keep, f"`keep` of the lake {name}", path)


def _check_duration(text: str, what: str, path: Path) -> None:
    try:
        seconds_of(text)
    except ValueError as error:
        raise PipelineError(f"{path}: {what}: {error}.") from None
