"""Settings of SASL: which mechanisms a listener offers, who is known, and for how long.

A listener may have its own: `listener.name.<listener>.<setting>`, and for one mechanism of it
`listener.name.<listener>.<mechanism>.<setting>`, names in small letters.
"""

from __future__ import annotations

from barnabas.config.checks import AtLeast
from barnabas.config.security.oauth_settings import OAUTH_SETTINGS
from barnabas.config.setting import Kind, Mode, Setting

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

SASL_SETTINGS: tuple[Setting, ...] = (
    Setting("sasl.enabled.mechanisms", Kind.LIST, "GSSAPI",
            f"The mechanisms that listeners with SASL offer: {', '.join(MECHANISMS)}.", mode=Mode.PER_BROKER),
    Setting("sasl.jaas.config", Kind.PASSWORD, None,
            "The users of PLAIN, as `org.apache.kafka.common.security.plain.PlainLoginModule required "
            "user_alice=\"her password\";`. SCRAM needs none: its users are in the cluster's metadata. Give it for a "
            "listener and a mechanism: listener.name.<listener>.plain.sasl.jaas.config."),
    Setting("sasl.mechanism.inter.broker.protocol", Kind.STRING, "GSSAPI",
            "The mechanism with which brokers authenticate to each other, where their listener has SASL. Their own "
            "name and password stand in `username` and `password` of sasl.jaas.config for that listener and mechanism.",
            mode=Mode.PER_BROKER),
    Setting("barnabas.plain.authenticator", Kind.STRING, None,
            "Who checks the passwords of PLAIN instead of sasl.jaas.config: the name of an entry point of the group "
            "barnabas.authenticators. `ldap` comes with Barnabas."),
    Setting("barnabas.plain.authenticator.config", Kind.STRING, None,
            "A properties file with its options, such as the address of the LDAP server."),
    Setting("sasl.kerberos.service.name", Kind.STRING, None,
            "The first part of the principal of this broker in GSSAPI, such as kafka; clients must have the same.",
            mode=Mode.PER_BROKER),
    Setting("sasl.kerberos.principal.to.local.rules", Kind.LIST, "DEFAULT",
            "How the name of a user is made of a Kerberos principal: rules as Kafka writes them, separated by commas, "
            "of which the first that fits decides. DEFAULT: the first part of names in the broker's realm.",
            mode=Mode.PER_BROKER),
    Setting("connections.max.reauth.ms", Kind.LONG, "0",
            "A client of SASL has to authenticate again after this time, as the same user and with the same mechanism "
            "(KIP-368); otherwise its connection is closed with its next request. 0: never.", AtLeast(0)),
    Setting("barnabas.credential.change.ends.sessions", Kind.BOOLEAN, "false",
            "When a SCRAM user is deleted or gets another password, or a delegation token is expired, connections that "
            "have authenticated with it are closed, on every broker. Those of brokers stay. Kafka leaves all of them "
            "open, until they authenticate again (connections.max.reauth.ms).", mode=Mode.CLUSTER_WIDE),
    Setting("connection.failed.authentication.delay.ms", Kind.INT, "100",
            "A client that fails to authenticate is told so after this time, and disconnected.", AtLeast(0)),
    Setting("sasl.server.max.receive.size", Kind.INT, "524288",
            "The largest request of a client that has not authenticated yet, on listeners where it has to.",
            AtLeast(1)),
    Setting("barnabas.scram.credentials.max", Kind.INT, "100000",
            "Credentials of SCRAM users that may be in the metadata; a user has one for each mechanism.", AtLeast(1)),
)  # fmt: skip

PER_LISTENER_SASL = frozenset(
    {
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "connections.max.reauth.ms",
        "barnabas.plain.authenticator",
        "barnabas.plain.authenticator.config",
        "sasl.kerberos.service.name",
        "sasl.kerberos.principal.to.local.rules",
    }
    | {setting.name for setting in OAUTH_SETTINGS}
)

# Delegation tokens (KIP-48): for how long they live, and the key behind their secrets.
TOKEN_SETTINGS: tuple[Setting, ...] = (
    Setting("delegation.token.secret.key", Kind.PASSWORD, None,
            "Secret that all brokers of a cluster share: with it and the id of a delegation token its HMAC is "
            "computed, which is the token's password. Unset: there are no delegation tokens."),
    Setting("delegation.token.max.lifetime.ms", Kind.LONG, "604800000",
            "For how long a delegation token can be renewed at most, whatever was asked for.", AtLeast(1)),
    Setting("delegation.token.expiry.time.ms", Kind.LONG, "86400000",
            "A delegation token that is not renewed for this long has expired.", AtLeast(1)),
    Setting("delegation.token.expiry.check.interval.ms", Kind.LONG, "3600000",
            "How often delegation tokens that have expired are removed. They are not accepted before that, "
            "either.", AtLeast(1)),
    # Kafka has no bound; any user may create tokens, and every broker keeps them.
    Setting("barnabas.delegation.tokens.max", Kind.INT, "10000",
            "How many delegation tokens there may be in the cluster. Another one is refused with "
            "POLICY_VIOLATION.", AtLeast(0)),
)  # fmt: skip
