"""What a user says of the door; the same names on the command line and in agent.yml."""

from __future__ import annotations

import msgspec

from barnabas.client import Address, parse_address
from barnabas.records import Header
from barnabas.security import is_this_machine
from barnabas.security.authn import SecuritySettingError
from barnabas.security.tls import check_files
from barnabas.web import WebLimits, parse_networks

DEFAULT_LISTEN = "127.0.0.1:8088"
POSITIVE = (
    "max_body_bytes", "max_records", "queue_bytes", "timeout", "idempotency_keys", "idempotency_ttl",
)  # fmt: skip


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: str
    listen: str = DEFAULT_LISTEN
    key: str | None = None
    """The key of every record."""
    key_field: str | None = None
    """The field of each value that is its record's key; dots go into objects."""
    headers: tuple[Header, ...] = ()
    http_headers: tuple[str, ...] = ()
    """Headers of requests that become headers of their records."""
    token_file: str | None = None
    """A line for each token that may write; read again when it changes."""
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    insecure: bool = False
    """Listen where other machines reach it, without TLS or without asking who they are."""
    max_body_bytes: int = 4 * 1024 * 1024
    """After decompression."""
    max_records: int = 20_000
    """Of one body."""
    queue_bytes: int = 32 * 1024 * 1024
    """Of all requests that are not answered; beyond it clients are told to wait."""
    connections: int = 500
    incomplete_per_address: int = 0
    """Connections of one client whose request is incomplete; 0: half of `connections`."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks to which `incomplete_per_address` does not apply."""
    head_timeout: float = 20.0
    body_timeout: float = 30.0
    body_rate: float = 1024.0
    """Bytes per second that must arrive on average."""
    timeout: float = 30.0
    """For the commit; afterwards the answer is 503."""
    idempotency_keys: int = 1_000_000
    idempotency_ttl: float = 86_400.0
    compression: str = "none"

    @property
    def limits(self) -> WebLimits:
        """ValueError for a proxy that is not an address or a network."""
        return WebLimits(
            connections=self.connections,
            incomplete_per_address=self.incomplete_per_address,
            head_seconds=self.head_timeout,
            body_seconds=self.body_timeout,
            body_rate=self.body_rate,
            trusted_proxies=parse_networks(self.trusted_proxies),
        )


def check_settings(settings: HttpSettings) -> Address:
    """Where to listen. ValueError or SecuritySettingError with a sentence for what cannot be meant or is refused."""
    address = parse_address(settings.listen)
    check_files(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    for name in POSITIVE:
        if getattr(settings, name) <= 0:
            raise ValueError(f"{name} is more than 0")
    _ = settings.limits  # ValueError for what is wrong in them
    if settings.queue_bytes < 2 * settings.max_body_bytes:
        raise ValueError(
            "queue_bytes is at least twice max_body_bytes: a body is there compressed and decompressed"
        )
    if settings.key is not None and settings.key_field is not None:
        raise ValueError("key and key_field exclude each other: give one of them")
    lacking = [] if settings.insecure or is_this_machine(address.host) else _lacking(settings)
    if lacking:
        raise SecuritySettingError(
            "listen",
            f"is {address}, which other machines can reach, and there is {' and '.join(lacking)}: give what is "
            "missing, listen on 127.0.0.1, or say that it is meant so (insecure)",
        )
    return address


def _lacking(settings: HttpSettings) -> list[str]:
    lacking = []
    if settings.tls_certificate is None:
        lacking.append("no TLS (tls_certificate)")
    if settings.token_file is None and settings.tls_client_ca is None:
        lacking.append("nothing that says who may write (token_file or tls_client_ca)")
    return lacking
