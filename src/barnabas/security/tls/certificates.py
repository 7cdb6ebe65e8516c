"""What a broker's own certificate says: whom it names, and until when."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.security.secret import SecuritySettingError
from barnabas.security.tls.stores import Store, certificate_pem_of


class OwnCertificate(NamedTuple):
    subject: str
    names: frozenset[str]  # host names and addresses
    expires: float  # seconds since 1970


def own_certificate(store: Store) -> OwnCertificate:
    from cryptography import x509

    from barnabas.security.tls.distinguished_name import written

    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem_of(store))
    except ValueError:
        raise SecuritySettingError(store.setting, "holds a certificate that cannot be read") from None
    return OwnCertificate(
        written(certificate.subject), _names(certificate), certificate.not_valid_after_utc.timestamp()
    )


def _names(certificate: object) -> frozenset[str]:
    from cryptography import x509

    assert isinstance(certificate, x509.Certificate)
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return frozenset()
    hosts = extension.value.get_values_for_type(x509.DNSName)
    return frozenset({*hosts, *map(str, extension.value.get_values_for_type(x509.IPAddress))})
