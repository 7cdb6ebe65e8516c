"""The kinds of sources: the words of each, and how a source is made of them. A new kind is one line of `KINDS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from barnabas.common.durations import seconds_of
from barnabas.services.ingest.http.settings import HttpSettings
from barnabas.services.ingest.agent import Source
from barnabas.services.ingest.agent_file.words import (
    FilesWords,
    HostWords,
    HttpWords,
    SourceWords,
    StatsdWords,
    SyslogWords,
)
from barnabas.services.ingest.files.source import FilesSettings, FilesSource
from barnabas.services.ingest.host.pages import page_of
from barnabas.services.ingest.host.source import HostSettings, HostSource
from barnabas.services.ingest.http.source import HttpSource
from barnabas.services.ingest.statsd.settings import StatsdSettings
from barnabas.services.ingest.statsd.source import StatsdSource
from barnabas.services.ingest.syslog.settings import SyslogSettings
from barnabas.services.ingest.syslog.source import SyslogSource
from barnabas.common.regex import PatternError, compile_pattern
from barnabas.records.record import Header

T = TypeVar("T", bound=msgspec.Struct)
SMALLEST_MOST = 1024
"""Of `max_line_bytes`."""


class Common(NamedTuple):
    """What a source has from the agent, or says itself."""

    name: str
    host: str
    topic: str
    key: str | None
    headers: tuple[Header, ...]


class SourceKind(NamedTuple):
    words: type[SourceWords]
    make: Callable[[Any, Common], Source]
    """ValueError for words that cannot be; its text says why."""


def make_files(words: FilesWords, common: Common) -> FilesSource:
    if words.max_line_bytes < SMALLEST_MOST:
        raise ValueError(f"max_line_bytes is at least {SMALLEST_MOST}")
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


def make_host(words: HostWords, common: Common) -> HostSource:
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


def make_syslog(words: SyslogWords, common: Common) -> SyslogSource:
    settings = _settings(SyslogSettings, words, common, idle_timeout=seconds_of(words.idle_timeout))
    return SyslogSource(common.name, settings)


def make_http(words: HttpWords, common: Common) -> HttpSource:
    settings = _settings(
        HttpSettings,
        words,
        common,
        http_headers=tuple(words.http_headers),
        body_timeout=seconds_of(words.body_timeout),
        timeout=seconds_of(words.timeout),
        idempotency_ttl=seconds_of(words.idempotency_ttl),
    )
    return HttpSource(common.name, settings)


def make_statsd(words: StatsdWords, common: Common) -> StatsdSource:
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
    "files": SourceKind(FilesWords, make_files),
    "host": SourceKind(HostWords, make_host),
    "syslog": SourceKind(SyslogWords, make_syslog),
    "http": SourceKind(HttpWords, make_http),
    "statsd": SourceKind(StatsdWords, make_statsd),
}


def _settings(kind: type[T], words: SourceWords, common: Common, **changed: object) -> T:
    """Settings that have the words' names."""
    said = msgspec.structs.asdict(words)
    del said["name"]
    return kind(**{**said, "topic": common.topic, "key": common.key, "headers": common.headers, **changed})


def _several(words: list[str] | str) -> list[str]:
    return [words] if isinstance(words, str) else words


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except PatternError as error:
        raise ValueError(f"{pattern!r} is no pattern of RE2: {error}") from None
