"""Schema of `console.yml`. Unknown keys are rejected with their line (`config/document`)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class Words(msgspec.Struct, forbid_unknown_fields=True):
    """Strings may reference secrets: `${env:NAME}`, `${file:PATH:KEY}`."""


class RegistryWords(Words):
    """Without `url`: the registry that the cluster runs. `settings` are `ssl.*`, by Kafka's names."""

    url: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    settings: dict[str, str] = {}


class ClusterWords(Words):
    name: str
    bootstrap: str
    settings: dict[str, str] = {}
    schema_registry: RegistryWords | None = None
    logs: tuple[str, ...] = ()
    logs_hours: Annotated[float, msgspec.Meta(gt=0, le=24 * 366)] = 24.0
    logs_gib: Annotated[float, msgspec.Meta(gt=0, le=1024)] = 4.0


class UserWords(Words):
    name: str
    password: str


class OidcWords(Words):
    issuer: str
    client_id: str
    client_secret: str = ""
    scopes: tuple[str, ...] = ("openid", "profile")
    name_claim: str = "sub"
    groups_claim: str = "groups"


class LoginWords(Words):
    kind: Literal["none", "kafka", "service"] | None = None
    users: list[UserWords] = []
    oidc: OidcWords | None = None
    idle: str = "30m"
    absolute: str = "12h"


class RoleWords(Words):
    role: Literal["viewer", "reader", "developer", "operator", "admin"]
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ("*",)
    names: tuple[str, ...] = ("*",)


class MaskWords(Words):
    topics: tuple[str, ...]
    clusters: tuple[str, ...] = ("*",)
    fields: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    key: bool = False


class TokenWords(Words):
    name: str
    digest: str
    role: Literal["viewer", "reader", "developer", "operator", "admin"]
    clusters: tuple[str, ...] = ("*",)
    names: tuple[str, ...] = ("*",)
    expires: str = ""


class AuditWords(Words):
    topic: str = ""
    cluster: str = ""
    max_bytes: int = 100 * 1024 * 1024
    files: int = 10


class AlarmWords(Words):
    silence: tuple[str, ...] = ()


class HttpLimitWords(Words):
    """Limits of the HTTP server; `incomplete_per_address` of 0 means half of `connections`."""

    connections: int = 1000
    incomplete_per_address: int = 0
    trusted_proxies: tuple[str, ...] = ()
    head_timeout: str = "20s"
    body_timeout: str = "60s"
    body_rate: float = 1024.0


class ConsoleWords(Words):
    clusters: list[ClusterWords] = []
    listen: str = "127.0.0.1:8090"
    url: str = ""
    tls: dict[str, str] = {}
    data: str = ""
    read_only: bool = False
    login: LoginWords = msgspec.field(default_factory=LoginWords)
    roles: list[RoleWords] = []
    masks: list[MaskWords] = []
    tokens: list[TokenWords] = []
    audit: AuditWords = msgspec.field(default_factory=AuditWords)
    alarms: AlarmWords = msgspec.field(default_factory=AlarmWords)
    publish_metrics: str = ""
    http: HttpLimitWords = msgspec.field(default_factory=HttpLimitWords)
