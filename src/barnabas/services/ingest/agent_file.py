"""`agent.yml`: the configuration file of an agent and its sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from barnabas.common.durations import seconds_of
from barnabas.common.regex import PatternError, compile_pattern
from barnabas.config.document import DocumentNode, read_document
from barnabas.records import Header
from barnabas.services.ingest.agent import IngestError, IngestSource
from barnabas.services.ingest.files.source import FilesSettings, FilesSource
from barnabas.services.ingest.host.pages import page_of
from barnabas.services.ingest.host.source import HostSettings, HostSource
from barnabas.services.ingest.http.settings import HttpSettings
from barnabas.services.ingest.http.source import HttpSource
from barnabas.services.ingest.statsd import StatsdSettings, StatsdSource
from barnabas.services.ingest.syslog.source import SyslogSettings, SyslogSource

# -- Keys of `agent.yml`. Values at agent level are defaults for all sources ----------------------------

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class SourceConfig(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Keys common to all sources."""

    name: str | None = None
    """Name under which positions are stored; default: the kind of the source."""
    topic: str | None = None
    key: str | None = None
    headers: dict[str, str] = {}


class Multiline(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    start: str
    """RE2 pattern: a matching line begins a new record."""
    timeout: str = "5s"


class FilesConfig(SourceConfig, kw_only=True, forbid_unknown_fields=True):
    paths: list[str] | str
    multiline: Multiline | None = None
    max_line_bytes: int = 1024 * 1024
    dead_letters: str | None = None
    compression: Compression = "none"


class HostConfig(SourceConfig, kw_only=True, forbid_unknown_fields=True):
    every: str = "5s"
    service: str | None = None
    prometheus: list[str] | str = []
    tps: str | None = None


class SyslogConfig(SourceConfig, kw_only=True, forbid_unknown_fields=True):
    listen: list[str] | str = "127.0.0.1:5514"
    format: Literal["json", "raw"] = "json"
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    max_message_bytes: int = 64 * 1024
    connections: int = 500
    idle_timeout: str = "1h"
    compression: Compression = "none"


class StatsdConfig(SourceConfig, kw_only=True, forbid_unknown_fields=True):
    listen: list[str] | str = "127.0.0.1:8125"
    every: str = "10s"
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    max_message_bytes: int = 64 * 1024
    max_bytes: int = 64 * 1024 * 1024
    connections: int = 500
    idle_timeout: str = "1h"
    compression: Compression = "none"


class HttpConfig(SourceConfig, kw_only=True, forbid_unknown_fields=True):
    listen: str = "127.0.0.1:8088"
    key_field: str | None = None
    http_headers: list[str] = []
    token_file: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    insecure: bool = False
    max_body_bytes: int = 4 * 1024 * 1024
    max_records: int = 20_000
    queue_bytes: int = 32 * 1024 * 1024
    connections: int = 500
    incomplete_per_address: int = 0
    trusted_proxies: list[str] = []
    head_timeout: str = "20s"
    body_timeout: str = "30s"
    body_rate: float = 1024.0
    timeout: str = "30s"
    idempotency_keys: int = 1_000_000
    idempotency_ttl: str = "1d"
    compression: Compression = "none"


class AgentConfig(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    sources: list[dict[str, object]]
    agent: str | None = None
    """Name of the agent; default: the host name and the stem of the file name."""
    host: str | None = None
    topic: str | None = None
    key: str | None = None
    headers: dict[str, str] = {}
    metrics: str | None = None
    """HOST:PORT of the Prometheus endpoint."""


# -- Source kinds: the keys of each and its factory. A new kind is one line of `KINDS` ------------------

T = TypeVar("T", bound=msgspec.Struct)
MIN_LIMIT = 1024
"""Minimum of `max_line_bytes`."""


class Common(NamedTuple):
    """Values of the source or, by default, of the agent."""

    name: str
    host: str
    topic: str
    key: str | None
    headers: tuple[Header, ...]


class SourceKind(NamedTuple):
    words: type[SourceConfig]
    make: Callable[[Any, Common], IngestSource]
    """Factory; raises ValueError with the reason for invalid values."""


def make_files(words: FilesConfig, common: Common) -> FilesSource:
    if words.max_line_bytes < MIN_LIMIT:
        raise ValueError(f"max_line_bytes must be at least {MIN_LIMIT}")
    multiline = words.multiline
    settings = FilesSettings(
        patterns=_several(words.paths),
        topic=common.topic,
        host=common.host,
        dead_letters=words.dead_letters or f"{common.topic}.dead-letters",
        key=common.key,
        headers=common.headers,
        multiline=None if multiline is None else _compiled(multiline.start),
        multiline_timeout=5.0 if multiline is None else seconds_of(multiline.timeout),
        max_line_bytes=words.max_line_bytes,
        compression=words.compression,
    )
    return FilesSource(common.name, settings)


def make_host(words: HostConfig, common: Common) -> HostSource:
    service = words.service or common.key or common.host
    settings = HostSettings(
        topic=common.topic,
        host=common.host,
        service=service,
        every=seconds_of(words.every),
        pages=tuple(page_of(each, service) for each in _several(words.prometheus)),
        tps=words.tps,
        headers=common.headers,
    )
    return HostSource(common.name, settings)


def make_syslog(words: SyslogConfig, common: Common) -> SyslogSource:
    settings = _settings(SyslogSettings, words, common, idle_timeout=seconds_of(words.idle_timeout))
    return SyslogSource(common.name, settings)


def make_http(words: HttpConfig, common: Common) -> HttpSource:
    settings = _settings(
        HttpSettings,
        words,
        common,
        http_headers=tuple(words.http_headers),
        trusted_proxies=tuple(words.trusted_proxies),
        head_timeout=seconds_of(words.head_timeout),
        body_timeout=seconds_of(words.body_timeout),
        timeout=seconds_of(words.timeout),
        idempotency_ttl=seconds_of(words.idempotency_ttl),
    )
    return HttpSource(common.name, settings)


def make_statsd(words: StatsdConfig, common: Common) -> StatsdSource:
    settings = _settings(
        StatsdSettings,
        words,
        common,
        host=common.host,
        every=seconds_of(words.every),
        idle_timeout=seconds_of(words.idle_timeout),
    )
    return StatsdSource(common.name, settings)


KINDS = {
    "files": SourceKind(FilesConfig, make_files),
    "host": SourceKind(HostConfig, make_host),
    "syslog": SourceKind(SyslogConfig, make_syslog),
    "http": SourceKind(HttpConfig, make_http),
    "statsd": SourceKind(StatsdConfig, make_statsd),
}


def _settings(kind: type[T], words: SourceConfig, common: Common, **changed: object) -> T:
    """Create settings whose fields have the same names as the keys of the file."""
    document = msgspec.structs.asdict(words)
    del document["name"]
    return kind(
        **{**document, "topic": common.topic, "key": common.key, "headers": common.headers, **changed}
    )


def _several(words: list[str] | str) -> list[str]:
    return [words] if isinstance(words, str) else words


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except PatternError as error:
        raise ValueError(f"not a valid RE2 pattern: {pattern!r}: {error}") from None


class AgentFileError(IngestError):
    """Invalid agent file; the message begins with the file and the line."""


class ConfiguredAgent(NamedTuple):
    name: str
    sources: Sequence[IngestSource]
    metrics: str | None


def read_agent(path: Path, host: str) -> ConfiguredAgent:
    """Read an agent file; AgentFileError, with the line, if it is invalid."""
    document = read_document(path, AgentFileError, needs="sources")
    words = document.value(AgentConfig)
    sources: dict[str, IngestSource] = {}
    nodes = document.fields["sources"][1].items
    if not nodes:
        document.fields["sources"][1].fail("an agent needs at least one source.")
    for node in nodes:
        source = _source(node, words, words.host or host)
        if source.name in sources:
            node.fail(
                f"two sources are named {source.name}: set `name`, under which the positions are stored."
            )
        sources[source.name] = source
    return ConfiguredAgent(words.agent or f"{host}-{path.stem}", list(sources.values()), words.metrics)


def _source(node: DocumentNode, agent: AgentConfig, host: str) -> IngestSource:
    fields = node.fields
    if len(fields) != 1:
        node.fail(
            f"a source must be one of {', '.join(KINDS)} with its settings, for example `- files: {{paths: ...}}`."
        )
    [(kind, (word, value))] = fields.items()
    node.known(word, kind, list(KINDS))
    found = KINDS[kind]
    words = value.value(found.words)
    try:
        return found.make(words, _common(kind, words, agent, host))
    except ValueError as error:
        node.fail(f"{error}.")


def _common(kind: str, words: SourceConfig, agent: AgentConfig, host: str) -> Common:
    topic = words.topic or agent.topic
    if topic is None:
        raise ValueError("`topic` is missing: set it for the source or the agent")
    headers = {**agent.headers, **words.headers}
    return Common(
        words.name or kind,
        host,
        topic,
        words.key or agent.key,
        tuple((name, value.encode()) for name, value in headers.items()),
    )


def describe_agent(agent: ConfiguredAgent) -> list[dict[str, object]]:
    """Sources and their target topics, for `--check`."""
    return [
        {
            "source": source.name,
            "kind": type(source).__name__.removesuffix("Source").lower(),
            "topics": [*source.topics],
        }
        for source in agent.sources
    ]
