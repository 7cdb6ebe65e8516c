"""Settings of the audit log: who did what to which resource, allowed or denied."""

from __future__ import annotations

from barnabas.config.checks import AtLeast, ListOf
from barnabas.config.setting import Kind, Setting

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
