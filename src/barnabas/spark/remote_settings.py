"""The options `remote` and `remote.*`: an object store that is read without a broker.

.option("remote", "s3://bucket/prefix").option("remote.region", "eu-central-1")

Options after `remote.` are passed to obstore under the same name, like a broker's `rsm.config.*`. The values may be
secrets, so they are never displayed.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.client.security import resolve
from barnabas.config.setting import ConfigError
from barnabas.security.authn import Secret, SecuritySettingError
from barnabas.spark.options import STORE_PREFIX, OptionError, Options
from barnabas.tiering.stores import URL, BrowsableStore, open_store

REMOTE, CLUSTER_ID, SNAPSHOT = "remote", "clusterId", "snapshot"
FOR_BROKERS = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
ISOLATION = "isolation.level"


@dataclass(frozen=True)
class RemoteSettings:
    url: str
    options: tuple[tuple[str, Secret], ...]
    cluster_id: str | None = None
    snapshot: str | None = None

    @classmethod
    def parse(cls, options: Options) -> RemoteSettings | None:
        """None if brokers are read. OptionError if the options of the store are invalid."""
        if REMOTE not in options:
            _refuse_without_remote(options)
            return None
        _refuse_for_brokers(options)
        given = {name: Secret(_resolved(name, value)) for name, value in options.prefixed(STORE_PREFIX)}
        settings = cls(
            options.require(REMOTE),
            tuple(sorted(given.items(), key=lambda item: item[0])),
            options.text(CLUSTER_ID) or None,
            options.text(SNAPSHOT) or None,
        )
        settings.open()  # sends no request to the store
        return settings

    def check_streaming(self) -> None:
        if self.snapshot is not None:
            raise OptionError("option 'snapshot' is for batch reads: a snapshot never grows")

    def open(self) -> BrowsableStore:
        try:
            return open_store(self.url, {name: value.text for name, value in self.options})
        except ConfigError as error:
            raise OptionError(in_options_words(str(error))) from None


def in_options_words(text: str) -> str:
    """Translate a message about broker settings to the names of options."""
    named = text.replace(URL, "option 'remote'").replace("rsm.config.*", "option 'remote.*'")
    return named.replace("rsm.config.", "remote.").replace("environment of the broker", "environment")


def _resolved(name: str, value: str) -> str:
    try:
        return resolve(STORE_PREFIX + name, value.strip())
    except SecuritySettingError as error:
        raise OptionError(f"option {error.setting!r} {error.problem}") from None


def _refuse_without_remote(options: Options) -> None:
    given = [name for name in (CLUSTER_ID, SNAPSHOT) if name in options]
    given += [STORE_PREFIX + name for name, _ in options.prefixed(STORE_PREFIX)]
    if given:
        raise OptionError(f"option {given[0]!r} is for an object store: the option 'remote' must name it")


def _refuse_for_brokers(options: Options) -> None:
    given = [name for name in FOR_BROKERS if name in options]
    given += [f"kafka.{name}" for name, _ in options.prefixed("kafka.") if name != ISOLATION]
    if "commitProgress" in options and options.flag("commitProgress"):
        given.append("commitProgress")
    if given:
        raise OptionError(
            f"option {given[0]!r} is for brokers, but 'remote' reads an object store without brokers: remove one "
            "of them"
        )
