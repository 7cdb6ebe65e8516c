"""The distinguished name of a certificate's subject, as Java's X500Principal.getName() writes it (RFC 2253).

Rules and ACLs of Kafka's users contain such names, so they must be the same to the letter: the last part first,
keywords for the nine types that RFC 2253 names, and the type's number with the value's encoding for all others.
"""

from __future__ import annotations

from typing import Any

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED = frozenset(',=+<>#;"\\')


def subject_of(certificate: bytes) -> str:
    """`certificate` is encoded as DER; its signature has been checked by the handshake."""
    from cryptography import x509

    return written(x509.load_der_x509_certificate(certificate).subject)


def written(name: Any) -> str:  # a Name of cryptography, which is not imported for its type
    return ",".join("+".join(_attribute(one) for one in part) for part in reversed(name.rdns))


def _attribute(attribute: Any) -> str:
    number = attribute.oid.dotted_string
    keyword = _KEYWORDS.get(number)
    if keyword is None or isinstance(attribute.value, bytes):
        return f"{keyword or number}=#{_encoded_value(attribute).hex()}"
    return f"{keyword}={_escape(attribute.value)}"


def _escape(value: str) -> str:
    escaped = "".join(
        "\\00" if one == "\0" else f"\\{one}" if one in _ESCAPED else one for one in value.strip(" ")
    )
    before = len(value) - len(value.lstrip(" "))
    after = len(value) - len(value.rstrip(" ")) if value.strip(" ") else 0
    return "\\ " * before + escaped + "\\ " * after


def _encoded_value(attribute: Any) -> bytes:
    """The value's DER: what follows the type in a name of this attribute alone."""
    from cryptography import x509

    encoded = x509.Name([attribute]).public_bytes()
    for _ in range(3):  # the name, its one part, the attribute
        encoded = _content(encoded)
    return _after(encoded)


def _content(encoded: bytes) -> bytes:
    length = encoded[1]
    return encoded[2 if length < 0x80 else 2 + (length & 0x7F) :]


def _after(encoded: bytes) -> bytes:
    """What follows the first element; the number of a type is shorter than 128 bytes."""
    return encoded[2 + encoded[1] :]
