"""Settings of what clients may do. `super.users` and the one below it are settings of Kafka's StandardAuthorizer."""

from __future__ import annotations

from barnabas.config.checks import AtLeast
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
