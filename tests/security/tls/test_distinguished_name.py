"""Distinguished names in Java's notation, compared with X500Principal.getName()."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from barnabas.security.tls.mapping_rules import written

CN, ORG, OU = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME
EMAIL = NameOID.EMAIL_ADDRESS


def name(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (((ORG, "Some"), (CN, "alice")), "CN=alice,O=Some"),
        (((ORG, "x y"), (CN, "a,b=c+d")), r"CN=a\,b\=c\+d,O=x y"),
        (((CN, "#a"),), r"CN=\#a"),
        (((CN, " lead "),), r"CN=\ lead\ "),
        (((CN, "Jürgen"),), "CN=Jürgen"),
        (
            (
                (NameOID.DOMAIN_COMPONENT, "com"),
                (NameOID.STREET_ADDRESS, "s"),
                (NameOID.STATE_OR_PROVINCE_NAME, "t"),
                (NameOID.LOCALITY_NAME, "l"),
                (NameOID.COUNTRY_NAME, "DE"),
                (NameOID.USER_ID, "u"),
            ),
            "UID=u,C=DE,L=l,ST=t,STREET=s,DC=com",
        ),
    ],
)
def test_known_types_have_keywords_and_values_are_escaped(
    parts: tuple[tuple[x509.ObjectIdentifier, str], ...], text: str
) -> None:
    assert written(name(*parts)) == text


def test_other_types_are_numbers_with_encoded_values() -> None:
    mail = x509.NameAttribute(EMAIL, "me@x.y", _ASN1Type.IA5String)
    assert written(x509.Name([mail])) == "1.2.840.113549.1.9.1=#16066d6540782e79"
    assert written(name((EMAIL, "m" * 200))).startswith("1.2.840.113549.1.9.1=#1681c86d6d")


def test_a_part_with_several_attributes_keeps_their_order() -> None:
    several = x509.RelativeDistinguishedName(
        [x509.NameAttribute(OU, "b"), x509.NameAttribute(NameOID.USER_ID, "c")]
    )
    one = x509.RelativeDistinguishedName([x509.NameAttribute(CN, "a")])
    assert written(x509.Name([several, one])) == "CN=a,OU=b+UID=c"
