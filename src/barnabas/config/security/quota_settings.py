"""Client quotas: how use is measured, and for how many clients."""

from __future__ import annotations

from barnabas.config.checks import AtLeast
from barnabas.config.setting import Kind, Setting

QUOTA_SETTINGS: tuple[Setting, ...] = (
    Setting("quota.window.num", Kind.INT, "11",
            "Samples over which the use of client quotas is measured: a client may use those of all but one at once.",
            AtLeast(1)),
    Setting("quota.window.size.seconds", Kind.INT, "1",
            "The time of a sample. A client waits no longer for its share of request time or of connections.",
            AtLeast(1)),
    Setting("controller.quota.window.num", Kind.INT, "11",
            "How many times controller.quota.window.size.seconds unused mutations of a client are kept for it.",
            AtLeast(1)),
    Setting("controller.quota.window.size.seconds", Kind.INT, "1",
            "The time of a sample of controller mutations.", AtLeast(1)),
    # Kafka keeps state for every client id that is used within an hour.
    Setting("barnabas.quotas.max.clients", Kind.INT, "10000",
            "Clients whose use of a quota is kept, and addresses; those that have been silent longest make room.",
            AtLeast(1)),
    Setting("barnabas.quotas.max.entities", Kind.INT, "10000",
            "Users, client ids, pairs of them and addresses that may have quotas in the metadata.", AtLeast(1)),
    Setting("barnabas.quotas.max.series", Kind.INT, "1000",
            "Clients that each metric of quotas shows: those that have used something last.", AtLeast(0)),
)  # fmt: skip
