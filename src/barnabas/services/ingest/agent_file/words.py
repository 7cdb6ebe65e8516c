"""The words of `agent.yml`. What is said for the whole agent holds for its sources that do not say otherwise."""

from __future__ import annotations

from typing import Literal

import msgspec

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class SourceWords(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What every source may say."""

    name: str | None = None
    """Positions are stored under it; the kind of the source if it says none."""
    topic: str | None = None
    key: str | None = None
    headers: dict[str, str] = {}


class Multiline(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    start: str
    """RE2: a line in which it is found begins a record."""
    timeout: str = "5s"


class FilesWords(SourceWords, kw_only=True, forbid_unknown_fields=True):
    paths: list[str] | str
    multiline: Multiline | None = None
    max_line_bytes: int = 1024 * 1024
    dead_letters: str | None = None
    compression: Compression = "none"


class HostWords(SourceWords, kw_only=True, forbid_unknown_fields=True):
    every: str = "5s"
    service: str | None = None
    prometheus: list[str] | str = []
    tps: str | None = None


class SyslogWords(SourceWords, kw_only=True, forbid_unknown_fields=True):
    listen: list[str] | str = "127.0.0.1:5514"
    format: Literal["json", "raw"] = "json"
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    max_message_bytes: int = 64 * 1024
    connections: int = 500
    idle_timeout: str = "1h"
    compression: Compression = "none"


class StatsdWords(SourceWords, kw_only=True, forbid_unknown_fields=True):
    listen: list[str] | str = "127.0.0.1:8125"
    every: str = "10s"
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    max_message_bytes: int = 64 * 1024
    connections: int = 500
    idle_timeout: str = "1h"
    compression: Compression = "none"


class HttpWords(SourceWords, kw_only=True, forbid_unknown_fields=True):
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
    body_timeout: str = "30s"
    timeout: str = "30s"
    idempotency_keys: int = 1_000_000
    idempotency_ttl: str = "1d"
    compression: Compression = "none"


class AgentWords(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    sources: list[dict[str, object]]
    agent: str | None = None
    """The name; HOST and the name of the file if there is none."""
    host: str | None = None
    topic: str | None = None
    key: str | None = None
    headers: dict[str, str] = {}
    metrics: str | None = None
    """Where a Prometheus page is served: HOST:PORT."""
