"""TLS context from settings, and explanations of handshake errors."""

from __future__ import annotations

import ssl

from barnabas.security.tls import TlsSettings, identify, limit_versions, set_ciphers, suites_of, trust

# OpenSSL's certificate verification errors.
_EXPIRED = (9, 10)
_UNTRUSTED = (2, 18, 19, 20, 21)
_OTHER_HOST = (62, 64)

# OpenSSL's reasons for handshake failures.
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE")
_OUR_CERTIFICATE = (
    "CERTIFICATE_REQUIRED",
    "HANDSHAKE_FAILURE",
    "BAD_CERTIFICATE",
    "UNKNOWN_CA",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
)


def tls_context(tls: TlsSettings) -> ssl.SSLContext:
    """Reads the files that the settings name: SecuritySettingError for one that is missing or wrong."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_host and tls.check_certificate
    context.verify_mode = ssl.CERT_REQUIRED if tls.check_certificate else ssl.CERT_NONE
    limit_versions(context, tls.versions)
    if tls.ciphers is not None and (suites := suites_of(tls.ciphers)).old:
        set_ciphers(context, suites.old)
    if tls.authorities is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        trust(context, tls.authorities)
    if tls.certificate is not None:
        identify(context, tls, tls.certificate)
    return context


def explain_handshake(error: ssl.SSLError, tls: TlsSettings | None) -> str:
    """Explanation of a handshake error, to follow the broker's address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error)
    reason = (error.reason or "").upper()
    if reason.endswith(_NOT_TLS):
        return "does not use TLS on this port: set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    if reason.endswith(_OUR_CERTIFICATE):
        if tls is None or tls.certificate is None:
            return "requires a client certificate: see ssl.keystore.location"
        return f"does not accept the certificate of this client ({tls.certificate.setting})"
    if "PROTOCOL" in reason or "VERSION" in reason:
        return "supports none of the TLS versions in ssl.enabled.protocols"
    return f"could not agree with this client on TLS: {error.reason or error}"


def _explain_certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _UNTRUSTED:
        return (
            "has a certificate from an authority that is not trusted here: "
            "set that authority's certificate in ssl.truststore.location or ssl.ca.location"
        )
    if error.verify_code in _OTHER_HOST:
        return (
            "has a certificate for another host: connect by a name in the certificate, or set "
            "ssl.endpoint.identification.algorithm to an empty value"
        )
    if error.verify_code in _EXPIRED:
        return f"has an expired or not yet valid certificate ({error.verify_message})"
    return f"has a certificate that is not accepted: {error.verify_message}"
