"""Login, roles, masks and audit settings of `console.yml`, validated."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from barnabas.security.authn import Secret
from barnabas.services.console.access.passwords import ApiToken, PasswordHash

EVERY = "*"


class LoginKind(StrEnum):
    NONE = "none"
    KAFKA = "kafka"
    """Users connect with their own Kafka credentials; the brokers' ACLs decide."""
    SERVICE = "service"
    """The console's principal acts for all users; their roles decide."""


class Role(IntEnum):
    """Each role includes the previous one."""

    VIEWER = 1
    READER = 2
    DEVELOPER = 3
    OPERATOR = 4
    ADMIN = 5


@dataclass(frozen=True, slots=True)
class Oidc:
    """An OpenID provider. `redirect` is the console's callback URL as seen by browsers."""

    issuer: str
    client_id: str
    redirect: str
    client_secret: Secret | None = None
    scopes: tuple[str, ...] = ("openid", "profile")
    name_claim: str = "sub"
    groups_claim: str = "groups"


@dataclass(frozen=True, slots=True)
class LoginSettings:
    kind: LoginKind = LoginKind.NONE
    users: dict[str, PasswordHash] = field(default_factory=dict)
    oidc: Oidc | None = None
    idle: float = 30 * 60.0
    absolute: float = 12 * 3600.0
    is_chosen: bool = False
    """True if console.yml names the kind; otherwise a console next to brokers with SASL takes their users."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Grants a role to users or groups on resource names in clusters. A trailing `*` matches a prefix."""

    role: Role
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    clusters: tuple[str, ...] = (EVERY,)
    names: tuple[str, ...] = (EVERY,)

    @property
    def principals(self) -> list[str]:
        named = (("User", self.users), ("Group", self.groups), ("Token", self.tokens))
        return [f"{kind}:{name}" for kind, names in named for name in names]


@dataclass(frozen=True, slots=True)
class MaskRule:
    """Mask of some topics: `fields` are paths in the value, such as `card.number`, `*.email`, `**.iban`."""

    topics: tuple[str, ...]
    clusters: tuple[str, ...] = (EVERY,)
    fields: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    key: bool = False


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """`topic` is in `cluster`, by default the first one."""

    max_bytes: int = 100 * 1024 * 1024
    files: int = 10
    topic: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class AccessSettings:
    login: LoginSettings = field(default_factory=LoginSettings)
    grants: tuple[Grant, ...] = ()
    masks: tuple[MaskRule, ...] = ()
    tokens: tuple[ApiToken, ...] = ()
    audit: AuditSettings = field(default_factory=AuditSettings)


def fits(name: str, patterns: tuple[str, ...]) -> bool:
    """True if the name equals a pattern or begins with one that has a trailing `*`."""
    return any(name.startswith(each[:-1]) if each.endswith(EVERY) else name == each for each in patterns)
