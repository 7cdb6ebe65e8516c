"""The settings of TLS, Kafka's names and defaults. Each may have `listener.name.<listener>.` before it."""

from __future__ import annotations

from barnabas.config.checks import AtLeast, ListOf, OneOf
from barnabas.config.setting import Kind, Mode, Setting

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
            "Barnabas does not fall back to the authorities of the system, from which anybody can get a certificate.",
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
