"""Settings of a mirror."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.client import parse_addresses
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.services.mirror.partition import Following
from barnabas.services.mirror.plan import IDENTITY, MirrorRules, PlanError

REFRESH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """`alias` names the link in states, positions and renamed topics."""

    alias: str
    bootstrap: str
    security: ClientSecurity = PLAINTEXT


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    topics: str = ".*"
    groups: str = ".*"
    rename: str = IDENTITY
    merge: bool = False
    keep_deleted: bool = False
    acls: bool = True
    replication_factor: int = -1
    refresh: float = REFRESH_SECONDS
    following: Following = field(default_factory=Following)

    def rules(self, alias: str) -> MirrorRules:
        return MirrorRules(alias, self.topics, self.rename, self.merge)


def parse_source(text: str, security: ClientSecurity = PLAINTEXT) -> SourceAddress:
    """Parse `[ALIAS=]HOST:PORT[,HOST:PORT]`. The alias defaults to the first host."""
    alias, equals, addresses = text.rpartition("=")
    try:
        first = parse_addresses(addresses)[0]
    except ValueError as error:
        raise PlanError(f"--from {text}: {error}") from None
    if equals and not alias:
        raise PlanError(f"--from {text} has no alias before the equals sign (example: a={addresses})")
    name = alias or first.host.strip("[]").replace(":", "-")
    MirrorRules(name).check()
    return SourceAddress(name, addresses, security)


def check_sources(sources: list[SourceAddress]) -> None:
    """Raise PlanError for duplicate aliases: such links would share topics and positions."""
    names = [source.alias for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"two sources are named {name}: set aliases, for example --from a=HOST:PORT")
