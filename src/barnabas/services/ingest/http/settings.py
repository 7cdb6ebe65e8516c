"""Settings of the HTTP source, with the same names on the command line and in agent.yml."""

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
    """Key of every record."""
    key_field: str | None = None
    """Field of each value to use as the record key; dots separate nested fields."""
    headers: tuple[Header, ...] = ()
    http_headers: tuple[str, ...] = ()
    """Request headers to copy to the records."""
    token_file: str | None = None
    """File of accepted tokens, one per line; reloaded when it changes."""
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    insecure: bool = False
    """Allow listening on a non-loopback address without TLS or authentication."""
    max_body_bytes: int = 4 * 1024 * 1024
    """Maximum body size after decompression."""
    max_records: int = 20_000
    """Maximum records per request."""
    queue_bytes: int = 32 * 1024 * 1024
    """Maximum bytes of all pending requests; above it the response is 429."""
    connections: int = 500
    incomplete_per_address: int = 0
    """Maximum connections per client address with an incomplete request; 0: half of `connections`."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks exempt from `incomplete_per_address`."""
    head_timeout: float = 20.0
    body_timeout: float = 30.0
    body_rate: float = 1024.0
    """Minimum average bytes per second of a body."""
    timeout: float = 30.0
    """Seconds to wait for the commit before the response is 503."""
    idempotency_keys: int = 1_000_000
    idempotency_ttl: float = 86_400.0
    compression: str = "none"

    @property
    def limits(self) -> WebLimits:
        """Limits of the web server; ValueError for a proxy that is not an address or a network."""
        return WebLimits(
            connections=self.connections,
            incomplete_per_address=self.incomplete_per_address,
            head_seconds=self.head_timeout,
            body_seconds=self.body_timeout,
            body_rate=self.body_rate,
            trusted_proxies=parse_networks(self.trusted_proxies),
        )


def check_settings(settings: HttpSettings) -> Address:
    """Return the listen address; ValueError or SecuritySettingError for invalid or insecure settings."""
    address = parse_address(settings.listen)
    check_files(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    for name in POSITIVE:
        if getattr(settings, name) <= 0:
            raise ValueError(f"{name} must be greater than 0")
    _ = settings.limits  # ValueError if invalid
    if settings.queue_bytes < 2 * settings.max_body_bytes:
        raise ValueError(
            "queue_bytes must be at least twice max_body_bytes: it holds a body compressed and decompressed"
        )
    if settings.key is not None and settings.key_field is not None:
        raise ValueError("key and key_field are mutually exclusive")
    lacking = [] if settings.insecure or is_this_machine(address.host) else _lacking(settings)
    if lacking:
        raise SecuritySettingError(
            "listen",
            f"is {address}, which other machines can reach, and lacks {' and '.join(lacking)}: add what is "
            "missing, listen on 127.0.0.1, or set insecure",
        )
    return address


def _lacking(settings: HttpSettings) -> list[str]:
    lacking = []
    if settings.tls_certificate is None:
        lacking.append("TLS (tls_certificate)")
    if settings.token_file is None and settings.tls_client_ca is None:
        lacking.append("authentication (token_file or tls_client_ca)")
    return lacking
