"""CheckedOptions of the Python client: Kafka's names in snake_case, with Kafka's defaults.

An unknown keyword is a TypeError that names the closest known one; a value out of range is a ValueError.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Literal, TypedDict

from barnabas.client.cluster import Client
from barnabas.client.consuming.assignors import ASSIGNORS
from barnabas.client.consuming.membership import PROTOCOLS, MemberSettings
from barnabas.client.fetching import FetchSettings
from barnabas.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from barnabas.client.producer import ProducerSettings
from barnabas.client.security import parse_security
from barnabas.client.security.settings import UNDERSTOOD
from barnabas.common.suggestions import did_you_mean
from barnabas.records.compression import CODEC_BY_NAME

SecurityProtocolName = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Acks = Literal["all", -1, 0, 1, "0", "1"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
GroupProtocol = Literal["auto", "classic", "consumer"]
OffsetReset = Literal["earliest", "latest", "none"]
IsolationLevel = Literal["read_uncommitted", "read_committed"]
Serializer = Callable[[Any], bytes | None]
Deserializer = Callable[[bytes], Any]

DEFAULT_BOOTSTRAP = "localhost:9092"


class ClientOptions(TypedDict, total=False):
    """CheckedOptions of all clients. The security options are described in docs/tls-and-sasl.md."""

    client_id: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    sasl_oauth_token_provider: Callable[[], Awaitable[str]]
    security_protocol: SecurityProtocolName
    ssl_truststore_location: str
    ssl_truststore_password: str
    ssl_truststore_type: str
    ssl_truststore_certificates: str
    ssl_ca_location: str
    ssl_ca_pem: str
    ssl_keystore_location: str
    ssl_keystore_password: str
    ssl_keystore_type: str
    ssl_keystore_certificate_chain: str
    ssl_keystore_key: str
    ssl_certificate_location: str
    ssl_certificate_pem: str
    ssl_key_location: str
    ssl_key_pem: str
    ssl_key_password: str
    ssl_endpoint_identification_algorithm: str
    enable_ssl_certificate_verification: bool | str
    ssl_enabled_protocols: str
    ssl_cipher_suites: str
    sasl_mechanism: str
    sasl_mechanisms: str
    sasl_jaas_config: str
    sasl_username: str
    sasl_password: str
    sasl_oauthbearer_token: str
    sasl_oauthbearer_token_endpoint_url: str
    sasl_oauthbearer_client_id: str
    sasl_oauthbearer_client_secret: str
    sasl_oauthbearer_client_credentials_client_id: str
    sasl_oauthbearer_client_credentials_client_secret: str
    sasl_oauthbearer_scope: str
    sasl_oauthbearer_extensions: str
    sasl_login_callback_handler_class: str


class ProducerOptions(ClientOptions, total=False):
    acks: Acks
    batch_size: int
    buffer_memory: int
    compression_level: int | None
    compression_type: Compression
    delivery_timeout_ms: int
    enable_idempotence: bool
    key_schema: str
    key_serializer: Serializer
    linger_ms: float
    max_block_ms: int
    partitioner: Callable[[str, bytes | None, int], int | None]
    schema_registry_url: str
    transaction_timeout_ms: int
    transactional_id: str
    value_schema: str
    value_serializer: Serializer


class ConsumerOptions(ClientOptions, total=False):
    auto_commit_interval_ms: int
    auto_offset_reset: OffsetReset
    enable_auto_commit: bool
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    group_id: str
    group_instance_id: str
    group_protocol: GroupProtocol
    heartbeat_interval_ms: int
    isolation_level: IsolationLevel
    key_deserializer: Deserializer
    max_partition_fetch_bytes: int
    max_poll_interval_ms: int
    max_poll_records: int
    metadata_max_age_ms: int
    partition_assignment_strategy: str | Iterable[str]
    schema_registry_url: str
    session_timeout_ms: int
    value_deserializer: Deserializer


class ShareConsumerOptions(ClientOptions, total=False):
    group_id: str
    key_deserializer: Deserializer
    max_poll_records: int
    schema_registry_url: str
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    value_deserializer: Deserializer


class CheckedOptions:
    """Checked options of one client."""

    def __init__(
        self,
        client: str,
        known: type,
        bootstrap_servers: str | Iterable[str] | None,
        config: Mapping[str, Any] | None,
        given: Mapping[str, Any],
    ) -> None:
        merged = {name.replace(".", "_"): value for name, value in (config or {}).items()} | dict(given)
        servers = merged.pop("bootstrap_servers", None) if bootstrap_servers is None else bootstrap_servers
        for name in merged:
            if name not in known.__annotations__:
                similar = did_you_mean(name, known.__annotations__)
                raise TypeError(f"{client}() got an unexpected keyword argument {name!r}{similar}")
        servers = DEFAULT_BOOTSTRAP if servers is None else servers
        self.bootstrap = servers if isinstance(servers, str) else ",".join(servers)
        self._given = {name: value for name, value in merged.items() if value is not None}
        self.resources = ExitStack()  # connections to the schema registry, which the client closes

    def get(self, name: str, default: Any = None) -> Any:
        return self._given.get(name, default)

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self._given.get(name, default)
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} must be a string, not {value!r}")
        return value

    def number(self, name: str, default: float, minimum: float = 0) -> float:
        value = self._given.get(name, default)
        if isinstance(value, str):  # from a properties file
            value = _number_in(name, value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name} must be a number, not {value!r}")
        if value < minimum:
            raise ValueError(f"{name} must be at least {minimum:g}, not {value:g}")
        return value

    def seconds(self, name: str, default_ms: float, least_ms: float = 0) -> float:
        return self.number(name, default_ms, least_ms) / 1000

    def flag(self, name: str, default: bool) -> bool:
        value = self._given.get(name, default)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, not {value!r}")
        return value

    def choice(self, name: str, default: str, choices: Iterable[str]) -> str:
        value, known = self._given.get(name, default), list(choices)
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
        return str(value)

    def function(self, name: str) -> Any:
        value = self._given.get(name)
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be a function, not {value!r}")
        return value

    # -- settings of the parts ----------------------------------------------------------------------

    def client(self) -> Client:
        """A client that connects on first use."""
        settings = {
            name: self._given[name.replace(".", "_")]
            for name in UNDERSTOOD
            if name.replace(".", "_") in self._given
        }
        security = parse_security(
            {name: str(value) for name, value in settings.items()}, self.function("sasl_oauth_token_provider")
        )
        return Client(
            self.bootstrap,
            client_id=self.text("client_id", "barnabas") or "",
            request_timeout=self.seconds("request_timeout_ms", 30_000, 1),
            total_timeout=self.seconds("default_api_timeout_ms", 60_000, 1),
            security=security,
        )

    def producer(self) -> ProducerSettings:
        acks = self._acks()
        idempotent = self.flag("enable_idempotence", acks == ALL)
        if idempotent and acks != ALL:
            raise ValueError(
                'enable_idempotence needs acks="all": pass enable_idempotence=False, or leave acks out'
            )
        level = self.get("compression_level")
        return ProducerSettings(
            acks=acks,
            compression=self.choice("compression_type", "none", CODEC_BY_NAME),
            level=None if level is None else int(self.number("compression_level", 0, -200)),
            batch_bytes=int(self.number("batch_size", BATCH_SIZE, 1)),
            linger=self.seconds("linger_ms", 5),
            delivery_timeout=self.seconds("delivery_timeout_ms", 120_000, 1),
            buffer_bytes=int(self.number("buffer_memory", 32 << 20, 1)),
            max_block=self.seconds("max_block_ms", 60_000),
            idempotent=idempotent,
            partitioner=self.function("partitioner"),
        )

    def _acks(self) -> int:
        word = str(self.get("acks", "all"))
        if word not in ACKS:
            raise ValueError(f'acks must be "all", 1 or 0, not {word!r}')
        return ACKS[word]

    def fetch(self) -> FetchSettings:
        level = self.choice("isolation_level", "read_uncommitted", ISOLATION)
        return FetchSettings(
            min_bytes=int(self.number("fetch_min_bytes", 1, 1)),
            max_bytes=int(self.number("fetch_max_bytes", 50 << 20, 1)),
            max_wait=self.seconds("fetch_max_wait_ms", 500),
            partition_bytes=int(self.number("max_partition_fetch_bytes", 1 << 20, 1)),
            isolation=ISOLATION[level],
        )

    def member(self) -> MemberSettings:
        value = self.get("partition_assignment_strategy", ("range", "cooperative-sticky"))
        strategies = (value,) if isinstance(value, str) else tuple(value)
        for name in strategies:
            if name not in ASSIGNORS:
                raise ValueError(
                    f"partition_assignment_strategy must be one or several of {', '.join(ASSIGNORS)}, not {name!r}"
                )
        session = self.seconds("session_timeout_ms", 45_000, 1)
        heartbeat = self.seconds("heartbeat_interval_ms", 3_000, 1)
        if heartbeat >= session:
            raise ValueError("heartbeat_interval_ms must be lower than session_timeout_ms")
        return MemberSettings(
            session_timeout=session,
            heartbeat_interval=heartbeat,
            rebalance_timeout=self.seconds("max_poll_interval_ms", 300_000, 1),
            strategies=strategies,
            instance_id=self.text("group_instance_id"),
        )

    def group_protocol(self) -> str:
        return self.choice("group_protocol", "auto", PROTOCOLS)


BATCH_SIZE = 256 * 1024  # one batch per partition is in flight at a time, so a larger one than Kafka's
ALL = -1
ACKS = {"all": ALL, "-1": ALL, "0": 0, "1": 1}
ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


def _number_in(name: str, text: str) -> float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise TypeError(f"{name} must be a number, not {text!r}") from None
