"""`ssl.principal.mapping.rules` (KIP-371): mapping of a certificate's distinguished name to a user name.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),.*$/$1@cluster/L,DEFAULT

The first rule whose pattern matches the full name decides. L and U convert the result to lower or upper case; DEFAULT
keeps the name unchanged. Names come from clients, so patterns use RE2, which has no backreferences and no lookaround.
"""

from __future__ import annotations

import re
import ssl
from typing import Any, NamedTuple, Self

from barnabas.security.authn.credentials import SecuritySettingError

# -- Distinguished name of a certificate's subject, formatted as by Java's X500Principal.getName() (RFC 2253)

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
    """Return the subject of a DER certificate, whose signature the handshake has verified."""
    from cryptography import x509

    return written(x509.load_der_x509_certificate(certificate).subject)


def subject_of_pem(text: str) -> str:
    """Return the subject of the first certificate in a PEM file, which may also contain a key."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    inside = text.partition(begin)[2].partition(end)[0]
    return subject_of(ssl.PEM_cert_to_DER_cert(f"{begin}{inside}{end}"))


def written(name: Any) -> str:  # cryptography.x509.Name, which is imported lazily
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
    """Return the DER of the attribute's value: the part after the type in a name of this attribute alone."""
    from cryptography import x509

    encoded = x509.Name([attribute]).public_bytes()
    for _ in range(3):  # the name, its only RDN, the attribute
        encoded = _content(encoded)
    return _after(encoded)


def _content(encoded: bytes) -> bytes:
    length = encoded[1]
    return encoded[2 if length < 0x80 else 2 + (length & 0x7F) :]


def _after(encoded: bytes) -> bytes:
    """Return the bytes after the first element, an object identifier of less than 128 bytes."""
    return encoded[2 + encoded[1] :]


SETTING = "ssl.principal.mapping.rules"
DEFAULT = "DEFAULT"

# A part between slashes: any characters, with slashes escaped by a backslash.
_PART = r"((?:\\.|[^\\/])*)"
_RULE = rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?))\s*(?:,|$)"
_GROUP = r"\\(.)|\$([1-9][0-9]*|0)"


class NoRuleAppliesError(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"no rule of {SETTING} applies to {name}")


class MappingRule(NamedTuple):
    pattern: Any  # an untyped RE2 pattern; None for DEFAULT
    replacement: str = ""
    case: str = ""

    def name_of(self, distinguished_name: str) -> str | None:
        if self.pattern is None:
            return distinguished_name
        if self.pattern.fullmatch(distinguished_name) is None:
            return None
        result = str(self.pattern.sub(self._replaced, distinguished_name))
        return {"L": result.lower(), "U": result.upper()}.get(self.case, result)

    def _replaced(self, match: Any) -> str:
        """Expand the replacement in Java's syntax: $1 is a group, a backslash quotes the next character."""

        def expanded(reference: re.Match[str]) -> str:
            escaped, digits = reference.groups()
            if escaped is not None:
                return str(escaped)
            # The longest group number that exists; the remaining digits are literal.
            while len(digits) > 1 and int(digits) > self.pattern.groups:
                digits = digits[:-1]
            if int(digits) > self.pattern.groups:
                return str(reference[0])
            return (match[int(digits)] or "") + reference[2][len(digits) :]

        return re.sub(_GROUP, expanded, self.replacement)


class MappingRules:
    def __init__(self, rules: tuple[MappingRule, ...]) -> None:
        self._rules = rules

    @classmethod
    def parse(cls, text: str) -> Self:
        rules, remaining = [], text.strip()
        while remaining:
            match = re.match(_RULE, remaining)
            if match is None:
                raise SecuritySettingError(
                    SETTING,
                    f"has an invalid rule {remaining!r}: write RULE:PATTERN/REPLACEMENT/[L|U] or DEFAULT",
                )
            default, pattern, replacement, case = match.groups()
            rules.append(MappingRule(None) if default else MappingRule(_compiled(pattern), replacement, case))
            remaining = remaining[match.end() :].lstrip()
        return cls(tuple(rules) or (MappingRule(None),))

    def name_of(self, distinguished_name: str) -> str:
        for rule in self._rules:
            name = rule.name_of(distinguished_name)
            if name is not None:
                return name
        raise NoRuleAppliesError(distinguished_name)


def _compiled(pattern: str) -> Any:
    import re2  # lazily, to keep the command line's start fast

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise SecuritySettingError(SETTING, f"has an invalid pattern {pattern!r}: {reason}") from None
