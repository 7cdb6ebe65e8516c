"""TLS of services other than brokers, such as ingest agents: certificate and key in PEM files."""

from __future__ import annotations

import ssl

from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.tls.server import ListenerTls, server_context
from barnabas.security.tls.settings import VERSIONS, TlsSettings
from barnabas.security.tls.stores import CertificateStore


def context_of_files(
    listener: str, certificate: str, key: str | None = None, client_ca: str | None = None
) -> ssl.SSLContext:
    """Return the context of a listener.

    Without `key` the certificate's file contains the key. With `client_ca` clients need a certificate signed by it.
    ConfigError for a missing or invalid file.
    """
    authorities = None if client_ca is None else CertificateStore("tls_client_ca", path=client_ca)
    tls = TlsSettings(
        authorities=authorities,
        certificate=CertificateStore("tls_certificate", path=certificate),
        key=None if key is None else CertificateStore("tls_key", path=key),
        versions=VERSIONS,
    )
    return server_context(ListenerTls(listener, tls, "none" if client_ca is None else "required"))


def check_files(certificate: str | None, key: str | None, client_ca: str | None) -> None:
    if certificate is None and (key is not None or client_ca is not None):
        name = "tls_key" if key is not None else "tls_client_ca"
        raise SecuritySettingError(name, "is given without tls_certificate")
