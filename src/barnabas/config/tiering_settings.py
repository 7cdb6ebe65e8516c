"""Broker settings of tiered storage (KIP-405): Kafka's, followed by those of Barnabas."""

from __future__ import annotations

from barnabas.config.checks import AtLeast
from barnabas.config.setting import MAX_LONG, Setting, SettingKind, UpdateMode
from barnabas.config.topic_settings import COMPACTED_COPIES

STORE_OPTIONS_PREFIX = "rsm.config."
"""Prefix of options that are passed to the object store, as in Kafka (remote.log.storage.manager.impl.prefix)."""

_HOUR = str(3600 * 1000)

TIERING_SETTINGS: tuple[Setting, ...] = (
    Setting("remote.log.storage.system.enable", SettingKind.BOOLEAN, "false",
            "Whether topics may be tiered to an object store. Requires barnabas.remote.storage.url."),
    Setting("remote.log.manager.task.interval.ms", SettingKind.LONG, "30000",
            "The interval at which a leader checks for segments to copy and for expired remote segments.", AtLeast(1)),
    # Unlimited in Kafka. Unlimited uploads blocked the event loop for 86 to 146 ms, limited ones did not.
    Setting("remote.log.manager.copy.max.bytes.per.second", SettingKind.LONG, "52428800",
            "The maximum rate at which a broker writes to the object store.", AtLeast(1), mode=UpdateMode.CLUSTER_WIDE),
    Setting("remote.log.manager.copier.thread.pool.size", SettingKind.INT, "10",
            "The maximum number of segments that a broker copies concurrently. Copies need no threads; each keeps "
            "several parts of 16 MiB in memory.", AtLeast(1), mode=UpdateMode.CLUSTER_WIDE),
    Setting("remote.log.manager.fetch.max.bytes.per.second", SettingKind.LONG, str(MAX_LONG),
            "Maximum rate at which a broker reads from the object store.", AtLeast(1), mode=UpdateMode.CLUSTER_WIDE),
    Setting("remote.log.reader.threads", SettingKind.INT, "10",
            "The maximum number of concurrent reads of remote data. Reads need no threads.",
            AtLeast(1), mode=UpdateMode.CLUSTER_WIDE),
    Setting("remote.fetch.max.wait.ms", SettingKind.INT, "500",
            "The maximum time that a fetch waits for remote data before it returns without them. The download "
            "continues.",
            AtLeast(1), mode=UpdateMode.CLUSTER_WIDE),
    Setting("remote.list.offsets.request.timeout.ms", SettingKind.LONG, "30000",
            "The maximum time of an offset lookup by timestamp in remote segments.",
            AtLeast(1), mode=UpdateMode.CLUSTER_WIDE),
    # Kafka's default is false: a new replica copies all local segments of the leader.
    Setting("follower.fetch.last.tiered.offset.enable", SettingKind.BOOLEAN, "true",
            "Whether a new replica starts at the end of the remote log and copies only later records (KIP-1023).",
            mode=UpdateMode.CLUSTER_WIDE),
    # Settings of Barnabas.
    Setting("barnabas.remote.storage.url", SettingKind.STRING, None,
            "The object store of tiered topics: s3://bucket/prefix, gs://..., az://... or file:///folder. Options such "
            "as credentials are set as rsm.config.<option> and never shown."),
    Setting("barnabas.remote.cache.bytes", SettingKind.LONG, str(1 << 30),
            "The disk space for the cache of remote data.", AtLeast(0)),
    Setting("barnabas.remote.compacted", SettingKind.STRING, "refuse",
            "Default of the topic setting barnabas.remote.compacted.", COMPACTED_COPIES,
            mode=UpdateMode.CLUSTER_WIDE),
    Setting("barnabas.remote.delete.delay.ms", SettingKind.LONG, _HOUR,
            "The time that expired remote segments are kept for clients that read the object store directly.",
            AtLeast(0)),
    Setting("barnabas.remote.roll.ms", SettingKind.LONG, _HOUR,
            "The age at which the active segment of a tiered topic is rolled so that it can be copied. It bounds how "
            "far the object store lags behind.", AtLeast(1000)),
    Setting("barnabas.remote.state.interval.ms", SettingKind.LONG, "60000",
            "The interval at which changed metadata and committed offsets are written to the object store, for "
            "`barnabas cluster restore`.", AtLeast(100)),
)  # fmt: skip


def store_option(name: str) -> Setting | None:
    """Return the setting of an object store option. Any option may be a secret, so none is shown."""
    if not name.startswith(STORE_OPTIONS_PREFIX) or name == STORE_OPTIONS_PREFIX:
        return None
    return Setting(
        name, SettingKind.PASSWORD, None, "An option for the object store of barnabas.remote.storage.url."
    )
