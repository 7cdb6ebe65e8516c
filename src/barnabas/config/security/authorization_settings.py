"""Settings of what clients may do and how much of it, and of the audit log, which says who did what.

`super.users` and the one below it are settings of Kafka's StandardAuthorizer.
"""

from __future__ import annotations

from barnabas.config.checks import AtLeast, ListOf
from barnabas.config.setting import Kind, Setting

AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Kafka's own authorizers, of KRaft and of ZooKeeper: names of the one that is here."""

AUTHORIZATION_SETTINGS: tuple[Setting, ...] = (
    Setting("authorizer.class.name", Kind.STRING, "",
            "Who decides what clients may do: the name of one of Kafka's authorizers for the ACLs of the cluster. "
            "Empty: everybody may do everything."),
    Setting("super.users", Kind.STRING, "",
            "Principals that may do everything, whatever the ACLs say, separated by semicolons: "
            "User:admin;User:broker. The brokers of a cluster belong to them."),
    Setting("allow.everyone.if.no.acl.found", Kind.BOOLEAN, "false",
            "Whether a resource that no ACL is about is open to everybody."),
    Setting("barnabas.acls.max", Kind.INT, "100000", "ACLs that may be in the metadata.", AtLeast(1)),
)  # fmt: skip

# Client quotas: how use is measured, and for how many clients.
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

AUDIT_EVENTS = ("denied", "admin", "logins", "allowed")

_NAMES = "Separated by commas; with a minus in front: all but these. Empty: all."

AUDIT_SETTINGS: tuple[Setting, ...] = (
    Setting("barnabas.audit.file", Kind.STRING, None,
            "A file for the audit log, a line of JSON for each event. Only the owner may read it. Unset: no file."),
    Setting("barnabas.audit.file.max.bytes", Kind.LONG, "104857600",
            "How long that file becomes before another one is begun: FILE.1 is the one before.", AtLeast(1024)),
    Setting("barnabas.audit.file.count", Kind.INT, "10",
            "How many files are kept beside the one that is written.", AtLeast(0)),
    Setting("barnabas.audit.topic.enable", Kind.BOOLEAN, "false",
            "Whether the audit log is written to the topic __barnabas_audit."),
    Setting("barnabas.audit.events", Kind.LIST, "denied,admin,logins",
            "What is written: requests that are denied, changes of the cluster, logins, everything that is allowed.",
            ListOf(*AUDIT_EVENTS)),
    Setting("barnabas.audit.apis", Kind.LIST, "", f"Only requests of these APIs, such as CreateTopics. {_NAMES}"),
    Setting("barnabas.audit.operations", Kind.LIST, "",
            f"Only these operations, such as WRITE. {_NAMES}"),
    Setting("barnabas.audit.principals", Kind.LIST, "",
            f"Only what these principals do, such as User:alice. {_NAMES}"),
    Setting("barnabas.audit.queue.size", Kind.INT, "10000",
            "How many events wait to be written. More are lost; how many, the audit log says itself.", AtLeast(1)),
)  # fmt: skip
