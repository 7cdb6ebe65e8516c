"""Parses and validates NAME.yml before Spark starts; unknown keys are errors with a line number.

name: orders
from: {topic: {topic: shop.orders, format: json, schema: "id BIGINT, amount DOUBLE, card STRING"}}
transforms: [{mask: {fields: [card], keep_last: 4}}, {filter: "amount > 0"}]
to: {jdbc: {url: "jdbc:postgresql://db/shop", table: orders, keys: [id], password: "${env:PG}"}}
errors: {topic: orders.dead-letters, tolerate: 100 per hour}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from barnabas.client.schemas import is_secret_setting
from barnabas.common.durations import seconds_of
from barnabas.common.suggestions import did_you_mean
from barnabas.config.document import DocumentPath, read_document
from barnabas.connect.endpoints import ConnectorSink, ConnectorSource
from barnabas.connect.secrets import Redaction, references_in, secrets_in, with_secrets
from barnabas.connect.sinks.jdbc import JdbcSink
from barnabas.connect.sinks.opensearch.sink import OpenSearchSink
from barnabas.connect.sinks.redis.sink import RedisSink
from barnabas.connect.sinks.tables import DeltaSink, IcebergSink, ParquetSink
from barnabas.connect.sinks.topic import TopicSink
from barnabas.connect.sources.files import FileStreamSource
from barnabas.connect.sources.http import HttpPollSource
from barnabas.connect.sources.jdbc import JdbcSource
from barnabas.connect.sources.postgres.source import PostgresSource
from barnabas.connect.sources.topic import TopicSource
from barnabas.connect.transforms import TRANSFORMS, Transform
from barnabas.pipelines import registry_options
from barnabas.pipelines.definitions import BOOTSTRAP
from barnabas.security.authn import Secret, SecuritySettingError
from barnabas.spark import PipelineError

# -- Sources and sinks by their key in NAME.yml --------------------------------------------------------

SOURCES: dict[str, type[ConnectorSource]] = {
    "topic": TopicSource,
    "files": FileStreamSource,
    "postgres": PostgresSource,
    "jdbc": JdbcSource,
    "http": HttpPollSource,
}
SINKS: dict[str, type[ConnectorSink]] = {
    "topic": TopicSink,
    "jdbc": JdbcSink,
    "delta": DeltaSink,
    "iceberg": IcebergSink,
    "parquet": ParquetSink,
    "opensearch": OpenSearchSink,
    "redis": RedisSink,
}


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_AT = re.compile(r" - at `(key in )?([^`]*)`$")
_UNKNOWN = re.compile(r"unknown field `([^`]+)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_TOLERATE = re.compile(r"(\d+)\s+(?:per|in|an?|/)\s*(.+)")


class Errors(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rows with errors become records of `topic`; more than `tolerate` of them stop the connector."""

    topic: str
    tolerate: str | None = None

    def allowed(self) -> tuple[int, float] | None:
        """Return (rows, seconds), or None for no limit; ValueError for an invalid rate."""
        if self.tolerate is None:
            return None
        found = _TOLERATE.fullmatch(self.tolerate.strip())
        if found is None:
            raise ValueError(f"not a valid rate: {self.tolerate!r} (example: `100 per hour`)")
        span = found[2] if found[2][0].isdigit() else f"1 {found[2]}"
        return int(found[1]), seconds_of(span)


class Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Restart policy: the backoff starts at `first` and doubles up to `longest`; the connector fails after `attempts`
    restarts without a batch. None: never."""

    first: str = "1 second"
    longest: str = "5 minutes"
    attempts: int | None = None


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    source: dict[str, Any] = msgspec.field(name="from")
    sink: dict[str, Any] = msgspec.field(name="to")
    transforms: list[dict[str, Any]] = []
    errors: Errors | None = None
    storage: str | None = None
    trigger: str = "1 second"
    stalled_after: str = "5 minutes"
    restart: Restart = Restart()
    configuration: dict[str, str] = {}


@dataclass(frozen=True)
class Connector:
    """A connector as declared in its file."""

    path: Path
    name: str
    source: ConnectorSource
    transforms: tuple[Transform, ...]
    sink: ConnectorSink
    errors: Errors | None
    storage: str
    trigger: str
    stalled_after: float
    restart: Restart
    configuration: Mapping[str, str]

    @property
    def redaction(self) -> Redaction:
        return Redaction(
            [*secrets_in(self.source), *secrets_in(self.sink), *_registry_secrets(self.configuration)]
        )


def _registry_secrets(configuration: Mapping[str, str]) -> Iterator[Secret]:
    """Secrets of the schema registry that `configuration` holds itself, without a reference."""
    for name, value in registry_options(configuration).items():
        if is_secret_setting(name):
            yield from (Secret(value), Secret(value.rpartition(":")[2]))


@dataclass(frozen=True)
class _LinedDocument:
    path: Path
    value: Any
    lines: Mapping[DocumentPath, int]

    def error(self, path: DocumentPath, text: str) -> PipelineError:
        """Return an error with the file and the line of `path`, or of its nearest known parent."""
        while path not in self.lines:
            path = path[:-1]
        return PipelineError(f"{self.path}, line {self.lines[path]}: {text}")


def _read(path: Path) -> _LinedDocument:
    document = read_document(path, PipelineError, needs="name, from, to")
    return _LinedDocument(path, document.plain(), dict(document.lines()))


def _path_in(text: str) -> DocumentPath:
    """Parse the path in a msgspec error, such as `$.to.jdbc[2].keys`."""
    steps = _STEP.finditer(text.removeprefix("$"))
    return tuple(int(step[2]) if step[2] is not None else step[1] for step in steps if step[0] != "[...]")


def read_connector(path: Path, overrides: Mapping[str, str] | None = None) -> Connector:
    """Read NAME.yml; PipelineError with file and line if invalid. `overrides` take precedence over `configuration`."""
    document = _read(path)
    if not isinstance(document.value, dict):
        raise document.error((), "a connector needs `name`, `from` and `to`.")
    section: _Document = _convert(document, document.value, _Document, ())
    if not _NAME.fullmatch(section.name):
        raise document.error(
            ("name",), f"not a valid name: {section.name!r} (allowed: letters, digits, `.`, `_` and `-`)."
        )
    configuration = {BOOTSTRAP: "127.0.0.1:9092", **section.configuration, **(overrides or {})}
    connector = Connector(
        path.resolve(),
        section.name,
        _end(document, "from", section.source, SOURCES),
        tuple(_transform(document, number, one) for number, one in enumerate(section.transforms)),
        _end(document, "to", section.sink, SINKS),
        section.errors,
        section.storage or (path.resolve().parent / ".barnabas" / "connect" / section.name).as_uri(),
        section.trigger,
        _seconds(document, section.stalled_after, ("stalled_after",)),
        section.restart,
        configuration,
    )
    _check(document, connector)
    return connector


def _check(document: _LinedDocument, connector: Connector) -> None:
    for path, text in (
        (("trigger",), connector.trigger),
        (("restart", "first"), connector.restart.first),
        (("restart", "longest"), connector.restart.longest),
    ):
        _seconds(document, text, path)
    try:
        if connector.errors is not None:
            connector.errors.allowed()
    except ValueError as error:
        raise document.error(("errors", "tolerate"), f"{error}.") from None
    if not connector.sink.is_routed and any(one.kind == "route" for one in connector.transforms):
        raise document.error(
            ("transforms",),
            "`route` chooses a topic for each row, but this sink has a single target.",
        )


def _end(
    document: _LinedDocument, section: str, said: Mapping[str, Any], known: Mapping[str, type[Any]]
) -> Any:
    """Parse a source or sink such as `{topic: {...}}`: one kind with its settings."""
    if len(said) != 1:
        raise document.error(
            (section,), f"`{section}` must be one of {_listed(known)}, with its settings below it."
        )
    kind, settings = next(iter(said.items()))
    if kind not in known:
        raise document.error((section, kind), _unknown(kind, known, f"`{section}`"))
    path = (section, kind)
    try:
        end = _convert(document, with_secrets(settings or {}, known[kind]), known[kind], path)
    except SecuritySettingError as error:
        raise document.error((*path, error.setting.strip("`")), f"{error}.") from None
    for reference in references_in(end):
        raise document.error(
            _line_of(document, reference, path),
            f"{reference} is in a field that appears in logs and the status; use it in fields such as `password` "
            "and `url`.",
        )
    return end


def _transform(document: _LinedDocument, number: int, section: Mapping[str, Any]) -> Transform:
    path: DocumentPath = ("transforms", number)
    if len(section) != 1:
        raise document.error(path, f"a transform must be one of {_listed(TRANSFORMS)}.")
    kind, value = next(iter(section.items()))
    if kind not in TRANSFORMS:
        raise document.error((*path, kind), _unknown(kind, TRANSFORMS, "`transforms`"))
    required, make = TRANSFORMS[kind]
    made: Transform = make(_convert(document, value, required, (*path, kind)))
    problem = made.problem()
    if problem is not None:
        raise document.error((*path, kind), f"{problem}.")
    return made


def _convert(document: _LinedDocument, value: Any, kind: Any, path: DocumentPath) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _told(document, str(error), kind, path) from None


def _told(document: _LinedDocument, text: str, kind: Any, path: DocumentPath) -> PipelineError:
    at = _AT.search(text)
    inner = _path_in(at[2]) if at else ()
    text = _AT.sub("", text)
    unknown = _UNKNOWN.search(text)
    if unknown is not None:
        known = list(_known_fields(kind))
        return document.error((*path, *inner, unknown[1]), _unknown(unknown[1], known, "this section"))
    name = inner[-1] if inner else path[-1] if path else None
    return document.error((*path, *inner), f"{f'`{name}`: ' if name is not None else ''}{text}.")


def _unknown(word: str, known: Iterable[str], where: str) -> str:
    known = list(known)
    hint = did_you_mean(word, known) or f"; known keys are {_listed(known)}."
    return f"unknown key `{word}` in {where}{hint}"


def _known_fields(kind: Any) -> Iterable[str]:
    for field in msgspec.structs.fields(kind):
        yield field.encode_name
        for part in (field.type, *getattr(field.type, "__args__", ())):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                yield from _known_fields(part)


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _seconds(document: _LinedDocument, text: str, path: DocumentPath) -> float:
    try:
        return seconds_of(text)
    except ValueError as error:
        raise document.error(path, f"`{path[-1]}`: {error}.") from None


def _line_of(document: _LinedDocument, text: str, path: DocumentPath) -> DocumentPath:
    """Return the path of the value that contains `text`, searched below `path`."""

    def found(value: Any, at: DocumentPath) -> DocumentPath | None:
        if isinstance(value, str):
            return at if text in value else None
        parts = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        return next((one for key, part in parts if (one := found(part, (*at, key))) is not None), None)

    value = document.value
    for step in path:
        value = value[step]
    return found(value, path) or path
