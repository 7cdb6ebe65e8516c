"""Settings of SASL, TLS, authorization, quotas and the audit log.

SASL and TLS settings may be set per listener with `listener.name.<listener>.<setting>`, and per mechanism with
`listener.name.<listener>.<mechanism>.<setting>`, with listener and mechanism in lower case.
"""

from __future__ import annotations

from barnabas.config.checks import AtLeast, ListCheck, OneOf
from barnabas.config.setting import Setting, SettingKind, UpdateMode

# -- Authorization, quotas and audit log ---------------------------------------------------------------

AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Kafka's authorizers for KRaft and ZooKeeper; both names select the built-in one."""

AUTHORIZATION_SETTINGS: tuple[Setting, ...] = (
    Setting("authorizer.class.name", SettingKind.STRING, "",
            "The authorizer: the class name of one of Kafka's authorizers enables ACLs. Empty: every client may do "
            "everything."),
    Setting("super.users", SettingKind.STRING, "",
            "Principals that may do everything regardless of ACLs, separated by semicolons: User:admin;User:broker. "
            "Include the brokers of the cluster."),
    Setting("allow.everyone.if.no.acl.found", SettingKind.BOOLEAN, "false",
            "Whether everyone may access resources without any ACL."),
    Setting("barnabas.acls.max", SettingKind.INT, "100000", "The maximum number of ACLs in the metadata.", AtLeast(1)),
)  # fmt: skip

# Client quotas
QUOTA_SETTINGS: tuple[Setting, ...] = (
    Setting("quota.window.num", SettingKind.INT, "11",
            "The number of samples over which client quotas are measured. A burst may use the quota of all but one.",
            AtLeast(1)),
    Setting("quota.window.size.seconds", SettingKind.INT, "1",
            "The duration of a sample; also the maximum throttle time for request time and for connections.",
            AtLeast(1)),
    Setting("controller.quota.window.num", SettingKind.INT, "11",
            "The number of samples of controller mutations whose unused quota a client accumulates.",
            AtLeast(1)),
    Setting("controller.quota.window.size.seconds", SettingKind.INT, "1",
            "The duration of a sample of controller mutations.", AtLeast(1)),
    # Kafka keeps state for every client id used within an hour.
    Setting("barnabas.quotas.max.clients", SettingKind.INT, "10000",
            "The maximum number of clients, and of addresses, whose quota usage is tracked. The longest idle ones are "
            "evicted.", AtLeast(1)),
    Setting("barnabas.quotas.max.entities", SettingKind.INT, "10000",
            "The maximum number of quota entities in the metadata: users, client ids, pairs of them, and addresses.",
            AtLeast(1)),
    Setting("barnabas.quotas.max.series", SettingKind.INT, "1000",
            "The maximum number of clients in each quota metric: the most recently active ones.", AtLeast(0)),
)  # fmt: skip

AUDIT_EVENTS = ("denied", "admin", "logins", "allowed")

_NAMES = "Separated by commas; a leading minus excludes a name. Empty: all."

AUDIT_SETTINGS: tuple[Setting, ...] = (
    Setting("barnabas.audit.file", SettingKind.STRING, None,
            "The audit log file, with one JSON object per line, readable by its owner only. Unset: no file."),
    Setting("barnabas.audit.file.max.bytes", SettingKind.LONG, "104857600",
            "The size at which the file is rotated to FILE.1.", AtLeast(1024)),
    Setting("barnabas.audit.file.count", SettingKind.INT, "10",
            "The number of rotated files to keep.", AtLeast(0)),
    Setting("barnabas.audit.topic.enable", SettingKind.BOOLEAN, "false",
            "Whether the audit log is written to the topic __barnabas_audit."),
    Setting("barnabas.audit.events", SettingKind.LIST, "denied,admin,logins",
            "The events to record: denied requests, changes of the cluster (admin), logins, all allowed requests.",
            ListCheck(*AUDIT_EVENTS)),
    Setting("barnabas.audit.apis", SettingKind.LIST, "", f"Record only these APIs, such as CreateTopics. {_NAMES}"),
    Setting("barnabas.audit.operations", SettingKind.LIST, "",
            f"Record only these operations, such as WRITE. {_NAMES}"),
    Setting("barnabas.audit.principals", SettingKind.LIST, "",
            f"Record only these principals, such as User:alice. {_NAMES}"),
    Setting("barnabas.audit.queue.size", SettingKind.INT, "10000",
            "The maximum number of events that wait to be written. Further ones are dropped, and their number is "
            "recorded in the audit log.", AtLeast(1)),
)  # fmt: skip


# -- TLS, with Kafka's names and defaults. Each may have the prefix `listener.name.<listener>.` --------

_PER_BROKER = UpdateMode.PER_BROKER

TLS_SETTINGS: tuple[Setting, ...] = (
    Setting("ssl.keystore.location", SettingKind.STRING, None,
            "The file with this broker's certificate chain and private key: PEM or PKCS12. JKS must be converted; the "
            "error at the start contains the command.", mode=_PER_BROKER),
    Setting("ssl.keystore.password", SettingKind.PASSWORD, None, "The password of a PKCS12 key store.",
            mode=_PER_BROKER),
    Setting("ssl.keystore.type", SettingKind.STRING, "JKS",
            "PEM, PKCS12 or JKS. Only validated: the format is detected from the file's content.",
            OneOf("JKS", "PKCS12", "PEM", ignore_case=True), mode=_PER_BROKER),
    Setting("ssl.keystore.certificate.chain", SettingKind.PASSWORD, None,
            "The certificate chain as PEM in the setting itself, instead of a file.",
            mode=_PER_BROKER),
    Setting("ssl.keystore.key", SettingKind.PASSWORD, None,
            "The private key as PEM in the setting itself, together with ssl.keystore.certificate.chain.",
            mode=_PER_BROKER),
    Setting("barnabas.ssl.sni.keystores", SettingKind.LIST, "",
            "Additional certificates by server name (SNI): NAME=FILE, separated by commas; *.NAME matches all names "
            "one level below. The files have the format and the passwords of ssl.keystore.location.",
            mode=_PER_BROKER),
    Setting("ssl.key.password", SettingKind.PASSWORD, None, "The password of an encrypted PEM key.",
            mode=_PER_BROKER),
    Setting("ssl.truststore.location", SettingKind.STRING, None,
            "The file with the trusted authorities of client certificates: PEM or PKCS12. Unlike Kafka, Barnabas does "
            "not fall back to the authorities of the system, which issue certificates to anyone. Revocation lists in a "
            "PEM file (`X509 CRL`) are checked; then each authority needs a current one.",
            mode=_PER_BROKER),
    Setting("ssl.truststore.password", SettingKind.PASSWORD, None, "Password of a PKCS12 trust store.",
            mode=_PER_BROKER),
    Setting("ssl.truststore.type", SettingKind.STRING, "JKS", "As ssl.keystore.type.",
            OneOf("JKS", "PKCS12", "PEM", ignore_case=True), mode=_PER_BROKER),
    Setting("ssl.truststore.certificates", SettingKind.PASSWORD, None,
            "The trusted authorities as PEM in the setting itself, instead of a file.", mode=_PER_BROKER),
    Setting("ssl.client.auth", SettingKind.STRING, "none",
            "Whether client certificates are required, requested (optional), or not requested (none).",
            OneOf("required", "requested", "none"), mode=_PER_BROKER),
    Setting("ssl.endpoint.identification.algorithm", SettingKind.STRING, "https",
            "https: the certificates of other brokers must match their host names. Empty: host names are not "
            "verified.", OneOf("https", "", ignore_case=True), mode=_PER_BROKER),
    Setting("ssl.enabled.protocols", SettingKind.LIST, "TLSv1.2,TLSv1.3", "The enabled TLS versions.",
            ListCheck("TLSv1.2", "TLSv1.3"), mode=_PER_BROKER),
    Setting("ssl.cipher.suites", SettingKind.LIST, "",
            "The enabled cipher suites, by their names in Java or OpenSSL. Empty: OpenSSL's default. As in Java, a TLS "
            "version without a listed suite is disabled. List all three suites of TLS 1.3 or none.",
            mode=_PER_BROKER),
    Setting("ssl.allow.dn.changes", SettingKind.BOOLEAN, "false",
            "Whether a dynamic update of the key store may change the distinguished name of the certificate."),
    Setting("ssl.allow.san.changes", SettingKind.BOOLEAN, "false",
            "Whether a dynamic update of the key store may remove host names from the certificate."),
    Setting("ssl.principal.mapping.rules", SettingKind.STRING, "DEFAULT",
            "Rules that map the distinguished name of a client certificate to a user name: "
            "RULE:PATTERN/REPLACEMENT/[L|U], separated by commas, or DEFAULT for the full name. Patterns use RE2 "
            "syntax."),
    Setting("barnabas.tls.auto", SettingKind.BOOLEAN, "false",
            "Whether to create a certificate authority and a certificate for this broker in the directory `tls` of "
            "the first log directory, for TLS listeners without ssl.keystore.location. Clients must trust the file "
            "ca.pem there. The certificate is renewed automatically."),
    # A handshake takes 18 KB, and with a distant client a third of a second.
    Setting("barnabas.tls.handshakes.max", SettingKind.INT, "1000",
            "The maximum number of concurrent TLS handshakes. Beyond it, handshakes whose client has been silent for "
            "2 s are closed, and new connections wait.", AtLeast(1)),
)  # fmt: skip

PER_LISTENER_TLS = frozenset(setting.name for setting in TLS_SETTINGS if "ssl." in setting.name)


# -- OAUTHBEARER: accepted tokens, keys of the identity provider, and the broker's own token -----------

_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")

OAUTH_SETTINGS: tuple[Setting, ...] = (
    Setting("sasl.oauthbearer.jwks.endpoint.url", SettingKind.STRING, None,
            "The URL of the identity provider's keys (JWKS): https, http to this machine, or a file "
            "(file:///etc/keys.json). Required for OAUTHBEARER."),
    Setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", SettingKind.LONG, "3600000",
            "The interval at which the keys are fetched; a token with an unknown key triggers an earlier fetch.",
            AtLeast(1)),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", SettingKind.LONG, "100",
            "The delay after a failed fetch of the keys; it doubles with each further failure.", AtLeast(1)),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", SettingKind.LONG, "10000",
            "The maximum delay after failed fetches; also the minimum time between fetches for unknown keys.",
            AtLeast(1)),
    Setting("sasl.oauthbearer.expected.issuer", SettingKind.STRING, None,
            "The required issuer (iss) of tokens. Required for OAUTHBEARER; optional in Kafka."),
    Setting("sasl.oauthbearer.expected.audience", SettingKind.LIST, "",
            "The accepted audiences (aud) of tokens. Required for OAUTHBEARER; optional in Kafka."),
    Setting("sasl.oauthbearer.clock.skew.seconds", SettingKind.INT, "30",
            "The tolerated difference between the clocks of the identity provider and the broker.", AtLeast(0)),
    Setting("sasl.oauthbearer.sub.claim.name", SettingKind.STRING, "sub", "The claim with the user name."),
    Setting("sasl.oauthbearer.scope.claim.name", SettingKind.STRING, "scope", "The claim with the scope."),
    Setting("barnabas.sasl.oauthbearer.algorithms", SettingKind.LIST, ",".join(_ALGORITHMS),
            "The accepted signature algorithms of tokens. Algorithms with a shared secret, and none, are not "
            "supported.", ListCheck(*_ALGORITHMS)),
    Setting("sasl.oauthbearer.token.endpoint.url", SettingKind.STRING, None,
            "The URL from which the broker gets its token for other brokers, if sasl.mechanism.inter.broker.protocol "
            "is OAUTHBEARER."),
    Setting("sasl.oauthbearer.client.credentials.client.id", SettingKind.STRING, None,
            "The broker's client id at the token endpoint."),
    Setting("sasl.oauthbearer.client.credentials.client.secret", SettingKind.PASSWORD, None,
            "The broker's client secret at the token endpoint."),
    Setting("sasl.oauthbearer.scope", SettingKind.STRING, None, "The scope that the broker requests."),
)  # fmt: skip


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

SASL_SETTINGS: tuple[Setting, ...] = (
    Setting("sasl.enabled.mechanisms", SettingKind.LIST, "GSSAPI",
            f"The enabled SASL mechanisms: {', '.join(MECHANISMS)}.", mode=UpdateMode.PER_BROKER),
    Setting("sasl.jaas.config", SettingKind.PASSWORD, None,
            "The users of PLAIN: `org.apache.kafka.common.security.plain.PlainLoginModule required "
            "user_alice=\"her password\";`. Users of SCRAM are in the cluster metadata instead. Set it per listener "
            "and mechanism: listener.name.<listener>.plain.sasl.jaas.config.", mode=UpdateMode.PER_BROKER),
    Setting("sasl.mechanism.inter.broker.protocol", SettingKind.STRING, "GSSAPI",
            "The SASL mechanism between brokers. A broker's own credentials are `username` and `password` in "
            "sasl.jaas.config for that listener and mechanism.",
            mode=UpdateMode.PER_BROKER),
    Setting("barnabas.plain.authenticator", SettingKind.STRING, None,
            "The authenticator that checks passwords of PLAIN instead of sasl.jaas.config: the name of an entry point "
            "in the group barnabas.authenticators. `ldap` is built in."),
    Setting("barnabas.plain.authenticator.config", SettingKind.STRING, None,
            "A properties file with options of the authenticator, such as the address of the LDAP server."),
    Setting("sasl.kerberos.service.name", SettingKind.STRING, None,
            "The first component of the broker's Kerberos principal, such as kafka; clients must use the same.",
            mode=UpdateMode.PER_BROKER),
    Setting("sasl.kerberos.principal.to.local.rules", SettingKind.LIST, "DEFAULT",
            "Rules in Kafka's syntax that map a Kerberos principal to a user name, separated by commas; the first "
            "match decides. DEFAULT: the first component of principals in the broker's realm.",
            mode=UpdateMode.PER_BROKER),
    Setting("connections.max.reauth.ms", SettingKind.LONG, "0",
            "The time after which a SASL client must re-authenticate as the same user with the same mechanism "
            "(KIP-368). Otherwise its connection is closed at its next request. 0: never.", AtLeast(0)),
    Setting("barnabas.credential.change.ends.sessions", SettingKind.BOOLEAN, "false",
            "Whether to close connections whose credential is no longer valid: a SCRAM user was deleted or has a new "
            "password, a delegation token expired, a PLAIN user changed in sasl.jaas.config, the identity provider "
            "withdrew the key of an OAUTHBEARER token (detected within sasl.oauthbearer.jwks.endpoint.refresh.ms), a "
            "Kerberos ticket expired. Connections of brokers are not closed. Kafka keeps all connections open until "
            "they re-authenticate (connections.max.reauth.ms).", mode=UpdateMode.CLUSTER_WIDE),
    Setting("connection.failed.authentication.delay.ms", SettingKind.INT, "100",
            "The delay before a failed authentication is answered and the connection closed.", AtLeast(0)),
    Setting("sasl.server.max.receive.size", SettingKind.INT, "524288",
            "The maximum size of a request before authentication. It bounds the messages of all mechanisms, and is "
            "the only limit for GSSAPI, whose tokens can be large.",
            AtLeast(1)),
    Setting("barnabas.sasl.scram.max.bytes", SettingKind.INT, "4096",
            "The maximum size of a SCRAM message: a name, two nonces and a proof.", AtLeast(1)),
    Setting("barnabas.sasl.plain.max.bytes", SettingKind.INT, "65536",
            "The maximum size of a PLAIN message: a name and a password, or a token in its place.",
            AtLeast(1)),
    Setting("barnabas.sasl.oauthbearer.max.bytes", SettingKind.INT, "65536",
            "The maximum size of an OAUTHBEARER message: a signed token.", AtLeast(1)),
    Setting("barnabas.scram.credentials.max", SettingKind.INT, "100000",
            "The maximum number of SCRAM credentials in the metadata; a user has one per mechanism.", AtLeast(1)),
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

# Delegation tokens (KIP-48)
TOKEN_SETTINGS: tuple[Setting, ...] = (
    Setting("delegation.token.secret.key", SettingKind.PASSWORD, None,
            "The secret shared by all brokers of the cluster, from which the HMACs (passwords) of delegation tokens "
            "are computed. Unset: delegation tokens are disabled."),
    Setting("delegation.token.max.lifetime.ms", SettingKind.LONG, "604800000",
            "The maximum lifetime of a delegation token, including renewals.", AtLeast(1)),
    Setting("delegation.token.expiry.time.ms", SettingKind.LONG, "86400000",
            "The time after which a delegation token expires unless it is renewed.", AtLeast(1)),
    Setting("delegation.token.expiry.check.interval.ms", SettingKind.LONG, "3600000",
            "The interval at which expired delegation tokens are deleted. Expired tokens are refused even before.",
            AtLeast(1)),
    # Kafka has no limit, although any user may create tokens, and every broker stores them.
    Setting("barnabas.delegation.tokens.max", SettingKind.INT, "10000",
            "The maximum number of delegation tokens in the cluster. Beyond it, new ones are refused with "
            "POLICY_VIOLATION.", AtLeast(0)),
)  # fmt: skip
