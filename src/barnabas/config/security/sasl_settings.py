"""Settings of SASL: which mechanisms a listener offers, who is known, and for how long.

A listener may have its own: `listener.name.<listener>.<setting>`, and for one mechanism of it
`listener.name.<listener>.<mechanism>.<setting>`, names in small letters.
"""

from __future__ import annotations

from barnabas.config.checks import AtLeast, ListOf, OneOf
from barnabas.config.setting import Kind, Mode, Setting

# -- Settings of what clients may do and how much of it, and of the audit log, which says who did what -

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


# -- The settings of TLS, Kafka's names and defaults. Each may have `listener.name.<listener>.` before it

_PER_BROKER = Mode.PER_BROKER

TLS_SETTINGS: tuple[Setting, ...] = (
    Setting("ssl.keystore.location", Kind.STRING, None,
            "The file with this broker's certificate, the chain above it and the key: PEM or PKCS12. JKS must be "
            "converted; what is said at the start tells how.", mode=_PER_BROKER),
    Setting("ssl.keystore.password", Kind.PASSWORD, None, "The password of a PKCS12 key store.", mode=_PER_BROKER),
    Setting("ssl.keystore.type", Kind.STRING, "JKS",
            "PEM, PKCS12 or JKS, for which PKCS12 is taken as well: what a file is, is seen from its bytes.",
            OneOf("JKS", "PKCS12", "PEM", ignore_case=True), mode=_PER_BROKER),
    Setting("ssl.keystore.certificate.chain", Kind.PASSWORD, None,
            "The certificate and the chain above it as PEM in the setting itself, instead of a file.",
            mode=_PER_BROKER),
    Setting("ssl.keystore.key", Kind.PASSWORD, None,
            "The key as PEM in the setting itself, beside ssl.keystore.certificate.chain.", mode=_PER_BROKER),
    Setting("barnabas.ssl.sni.keystores", Kind.LIST, "",
            "Other certificates by the name that a client asks for (SNI): NAME=FILE, separated by commas; *.NAME is "
            "for all names one level below. The files are like ssl.keystore.location and have the same passwords.",
            mode=_PER_BROKER),
    Setting("ssl.key.password", Kind.PASSWORD, None, "The password of a key in PEM that is encrypted.",
            mode=_PER_BROKER),
    Setting("ssl.truststore.location", Kind.STRING, None,
            "The file with the authorities whose certificates clients may have: PEM or PKCS12. Unlike Kafka, "
            "Barnabas does not fall back to the authorities of the system, from which anybody can get a certificate. "
            "Revocation lists in a PEM file (`X509 CRL`) are checked; then each authority needs a current one.",
            mode=_PER_BROKER),
    Setting("ssl.truststore.password", Kind.PASSWORD, None, "The password of a PKCS12 trust store.", mode=_PER_BROKER),
    Setting("ssl.truststore.type", Kind.STRING, "JKS", "As ssl.keystore.type.",
            OneOf("JKS", "PKCS12", "PEM", ignore_case=True), mode=_PER_BROKER),
    Setting("ssl.truststore.certificates", Kind.PASSWORD, None,
            "Those authorities as PEM in the setting itself, instead of a file.", mode=_PER_BROKER),
    Setting("ssl.client.auth", Kind.STRING, "none",
            "Whether clients must show a certificate (required), may (requested), or are not asked (none).",
            OneOf("required", "requested", "none"), mode=_PER_BROKER),
    Setting("ssl.endpoint.identification.algorithm", Kind.STRING, "https",
            "Between brokers, https: the certificate of another broker must name the host at which it is reached. "
            "Empty: any name will do.", OneOf("https", "", ignore_case=True), mode=_PER_BROKER),
    Setting("ssl.enabled.protocols", Kind.LIST, "TLSv1.2,TLSv1.3", "The versions of TLS that are spoken.",
            ListOf("TLSv1.2", "TLSv1.3"), mode=_PER_BROKER),
    Setting("ssl.cipher.suites", Kind.LIST, "",
            "The cipher suites, by Java's names or OpenSSL's; empty: OpenSSL's choice. As in Java a version of TLS of "
            "which no suite is named is not spoken. Of TLS 1.3 all three suites or none.", mode=_PER_BROKER),
    Setting("ssl.allow.dn.changes", Kind.BOOLEAN, "false",
            "Whether a key store that changes while the broker runs may have a certificate for another name."),
    Setting("ssl.allow.san.changes", Kind.BOOLEAN, "false",
            "Whether the certificate in a key store that changes while the broker runs may be for fewer hosts."),
    Setting("ssl.principal.mapping.rules", Kind.STRING, "DEFAULT",
            "How the name of a user is made of the distinguished name in its certificate: "
            "RULE:PATTERN/REPLACEMENT/[L|U], separated by commas, or DEFAULT for the name as it is. Patterns are "
            "RE2's."),
    Setting("barnabas.tls.auto", Kind.BOOLEAN, "false",
            "Make an authority and a certificate of this broker in the folder `tls` of the first log dir, and use them "
            "on listeners with TLS that have no ssl.keystore.location. Clients trust the file ca.pem there. The "
            "certificate is renewed before it expires."),
    # A handshake takes 18 KB, and a client on the other side of the world a third of a second.
    Setting("barnabas.tls.handshakes.max", Kind.INT, "1000",
            "TLS handshakes at once. Beyond that, those that have waited for their client for 2 s are closed, and "
            "new connections wait until others are done.", AtLeast(1)),
)  # fmt: skip

PER_LISTENER_TLS = frozenset(setting.name for setting in TLS_SETTINGS if "ssl." in setting.name)


# -- Settings of OAUTHBEARER: which tokens count, where the keys are, and how a broker gets a token of its own

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")

OAUTH_SETTINGS: tuple[Setting, ...] = (
    Setting("sasl.oauthbearer.jwks.endpoint.url", Kind.STRING, None,
            "Where the identity provider has its keys (JWKS): an https address, http to this machine, or a file "
            "(file:///etc/keys.json). OAUTHBEARER needs it."),
    Setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", Kind.LONG, "3600000",
            "The keys are fetched again after this time. They are sooner, when a token names one that is not known.",
            AtLeast(1)),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Kind.LONG, "100",
            "Keys that could not be fetched are tried again after this time, which doubles each time.", AtLeast(1)),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Kind.LONG, "10000",
            "It doubles up to this. Tokens that name keys nobody knows have them fetched no more often than this.",
            AtLeast(1)),
    Setting("sasl.oauthbearer.expected.issuer", Kind.STRING, None,
            "The issuer that a token must name (iss). OAUTHBEARER needs it; Kafka does not insist."),
    Setting("sasl.oauthbearer.expected.audience", Kind.LIST, "",
            "A token must be meant for one of these (aud). OAUTHBEARER needs it; Kafka does not insist."),
    Setting("sasl.oauthbearer.clock.skew.seconds", Kind.INT, "30",
            "By how much the clocks of the identity provider and the broker may differ.", AtLeast(0)),
    Setting("sasl.oauthbearer.sub.claim.name", Kind.STRING, "sub", "The claim that names the user."),
    Setting("sasl.oauthbearer.scope.claim.name", Kind.STRING, "scope", "The claim that names the scope."),
    Setting("barnabas.sasl.oauthbearer.algorithms", Kind.LIST, ",".join(_ALGORITHMS),
            "The algorithms that tokens may be signed with. Those with a shared secret, and none, are not among them.",
            ListOf(*_ALGORITHMS)),
    Setting("sasl.oauthbearer.token.endpoint.url", Kind.STRING, None,
            "Where a broker gets a token for other brokers, if sasl.mechanism.inter.broker.protocol is OAUTHBEARER."),
    Setting("sasl.oauthbearer.client.credentials.client.id", Kind.STRING, None, "The broker's name there."),
    Setting("sasl.oauthbearer.client.credentials.client.secret", Kind.PASSWORD, None, "Its secret there."),
    Setting("sasl.oauthbearer.scope", Kind.STRING, None, "The scope that it asks for."),
)  # fmt: skip


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

SASL_SETTINGS: tuple[Setting, ...] = (
    Setting("sasl.enabled.mechanisms", Kind.LIST, "GSSAPI",
            f"The mechanisms that listeners with SASL offer: {', '.join(MECHANISMS)}.", mode=Mode.PER_BROKER),
    Setting("sasl.jaas.config", Kind.PASSWORD, None,
            "The users of PLAIN, as `org.apache.kafka.common.security.plain.PlainLoginModule required "
            "user_alice=\"her password\";`. SCRAM needs none: its users are in the cluster's metadata. Give it for a "
            "listener and a mechanism: listener.name.<listener>.plain.sasl.jaas.config.", mode=Mode.PER_BROKER),
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
            "Close connections whose credential is not accepted any more: a SCRAM user is deleted or gets another "
            "password, a delegation token expires, a user of PLAIN changes in sasl.jaas.config, the identity provider "
            "withdraws the key of an OAUTHBEARER token (noticed within sasl.oauthbearer.jwks.endpoint.refresh.ms), a "
            "Kerberos ticket ends. Connections of brokers stay. Kafka leaves all of them open until they "
            "authenticate again (connections.max.reauth.ms).", mode=Mode.CLUSTER_WIDE),
    Setting("connection.failed.authentication.delay.ms", Kind.INT, "100",
            "A client that fails to authenticate is told so after this time, and disconnected.", AtLeast(0)),
    Setting("sasl.server.max.receive.size", Kind.INT, "524288",
            "The largest request of a client that has not authenticated yet, on listeners where it has to. The bound "
            "of every mechanism; tokens of GSSAPI have no other, as they may be large.",
            AtLeast(1)),
    Setting("barnabas.sasl.scram.max.bytes", Kind.INT, "4096",
            "The longest message of SCRAM: a name, two nonces and a proof.", AtLeast(1)),
    Setting("barnabas.sasl.plain.max.bytes", Kind.INT, "65536",
            "The longest message of PLAIN: a name and a password, or a token of some service in its place.",
            AtLeast(1)),
    Setting("barnabas.sasl.oauthbearer.max.bytes", Kind.INT, "65536",
            "The longest message of OAUTHBEARER: a signed token.", AtLeast(1)),
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
