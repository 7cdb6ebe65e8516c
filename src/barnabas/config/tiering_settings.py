"""The broker's settings of tiered storage (KIP-405): Kafka's, and in the last block our own."""

from __future__ import annotations

from barnabas.config.checks import AtLeast
from barnabas.config.setting import MAX_LONG, Kind, Mode, Setting
from barnabas.config.topic_settings import COMPACTED_COPIES

STORE_OPTIONS_PREFIX = "rsm.config."
"""As in Kafka (remote.log.storage.manager.impl.prefix): what follows is for the object store alone."""

_HOUR = str(3600 * 1000)

TIERING_SETTINGS: tuple[Setting, ...] = (
    Setting("remote.log.storage.system.enable", Kind.BOOLEAN, "false",
            "Whether topics may keep sealed segments in an object store. Needs barnabas.remote.storage.url."),
    Setting("remote.log.manager.task.interval.ms", Kind.LONG, "30000",
            "How often a leader looks for segments to copy, and for remote ones that have expired.", AtLeast(1)),
    # Kafka's default is no limit. Unpaced uploads held the loop up by 86 to 146 ms, paced ones like these did not.
    Setting("remote.log.manager.copy.max.bytes.per.second", Kind.LONG, "52428800",
            "The most that a broker copies to the object store.", AtLeast(1), mode=Mode.CLUSTER_WIDE),
    Setting("remote.log.manager.copier.thread.pool.size", Kind.INT, "10",
            "The most segments that a broker copies at once. They need no threads; each holds some parts of 16 MiB "
            "in memory.", AtLeast(1), mode=Mode.CLUSTER_WIDE),
    Setting("remote.log.manager.fetch.max.bytes.per.second", Kind.LONG, str(MAX_LONG),
            "The most that a broker reads from the object store.", AtLeast(1), mode=Mode.CLUSTER_WIDE),
    Setting("remote.log.reader.threads", Kind.INT, "10",
            "The most requests for remote data that are under way at once. They need no threads here.",
            AtLeast(1), mode=Mode.CLUSTER_WIDE),
    Setting("remote.fetch.max.wait.ms", Kind.INT, "500",
            "How long a fetch waits for remote data before it is answered without. The download goes on.",
            AtLeast(1), mode=Mode.CLUSTER_WIDE),
    Setting("remote.list.offsets.request.timeout.ms", Kind.LONG, "30000",
            "How long a search by time may take that looks into remote segments.",
            AtLeast(1), mode=Mode.CLUSTER_WIDE),
    # Kafka's default is false: there a new replica copies from the leader all that this still has.
    Setting("follower.fetch.last.tiered.offset.enable", Kind.BOOLEAN, "true",
            "Whether a new replica begins at the end of the remote part and copies only the rest (KIP-1023).",
            mode=Mode.CLUSTER_WIDE),
    # Barnabas's own.
    Setting("barnabas.remote.storage.url", Kind.STRING, None,
            "The object store of tiered topics: s3://bucket/prefix, gs://..., az://... or file:///folder. Options such "
            "as credentials are given as rsm.config.<option> and never shown."),
    Setting("barnabas.remote.cache.bytes", Kind.LONG, str(1 << 30),
            "Disk space for remote data that was read a moment ago.", AtLeast(0)),
    Setting("barnabas.remote.compacted", Kind.STRING, "refuse",
            "What barnabas.remote.compacted is for topics that do not set it.", COMPACTED_COPIES,
            mode=Mode.CLUSTER_WIDE),
    Setting("barnabas.remote.delete.delay.ms", Kind.LONG, _HOUR,
            "How long an expired remote segment is kept for readers that go to the object store directly.", AtLeast(0)),
    Setting("barnabas.remote.roll.ms", Kind.LONG, _HOUR,
            "The age at which the active segment of a tiered topic is sealed, so that it is copied: what lies in the "
            "object store is at most about this old.", AtLeast(1000)),
    Setting("barnabas.remote.state.interval.ms", Kind.LONG, "60000",
            "How often metadata and committed offsets are written to the object store, where they have changed, for "
            "`barnabas cluster restore`.", AtLeast(100)),
)  # fmt: skip


def store_option(name: str) -> Setting | None:
    """The setting behind a name of an option for the object store. Any may be a secret, so none is shown."""
    if not name.startswith(STORE_OPTIONS_PREFIX) or name == STORE_OPTIONS_PREFIX:
        return None
    return Setting(
        name, Kind.PASSWORD, None, "An option for the object store of barnabas.remote.storage.url."
    )
