"""Mapping of Kerberos principals to user names: Kafka's `sasl.kerberos.principal.to.local.rules`.

    RULE:[2:$1@$0](.*@EXAMPLE\\.COM)s/@.*//     kafka/host@EXAMPLE.COM -> kafka
    DEFAULT                                     alice@OUR.REALM -> alice

The first rule that applies decides. `[n:format]` applies to principals of n components; `$0` in the format is the
realm, `$1` and `$2` are the components. The formatted string must match the regular expression in parentheses, if
present. Then `s/from/to/` replaces the first match, or all with `g`; `/L` and `/U` convert to lower and upper case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_NAME = re.compile(r"([^/@]+)(?:/([^/@]+))?(?:@([^/@]+))?")
_RULE = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<source>[^/]*)/(?P<target>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER = re.compile(r"\$(\d)")


class NoRuleError(ValueError):
    """No rule applies to a principal, or the result is not a valid user name."""


class KerberosRule(NamedTuple):
    components: int = 0  # of the principals that it applies to; 0 for DEFAULT
    format: str = ""
    match: re.Pattern[str] | None = None
    source: re.Pattern[str] | None = None
    target: str = ""
    is_global: bool = False
    case: str = ""

    def apply(self, parts: list[str], realm: str, default_realm: str) -> str | None:
        """Return the user name, or None if the rule does not apply."""
        if not self.components:
            return parts[0] if realm == default_realm else None
        if len(parts) != self.components:
            return None
        words = [realm, *parts]
        base = _PARAMETER.sub(lambda reference: _word(words, int(reference[1])), self.format)
        if self.match is not None and not self.match.fullmatch(base):
            return None
        name = base if self.source is None else self.source.sub(self.target, base, 0 if self.is_global else 1)
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)


def _word(words: list[str], index: int) -> str:
    if index >= len(words):
        raise NoRuleError(f"a rule refers to ${index}, but the principal has no such component")
    return words[index]


def parse_rules(texts: Iterable[str]) -> tuple[KerberosRule, ...]:
    """Parse rules; ValueError for an invalid one."""
    return tuple(_parse(text.strip()) for text in texts if text.strip())


def _parse(text: str) -> KerberosRule:
    parts = _RULE.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not a rule: write DEFAULT, or RULE:[n:format](regex)s/from/to/")
    if parts["default"]:
        return KerberosRule()
    if parts["count"] == "0":
        raise ValueError(f"{text!r} must apply to principals of at least one component")
    try:
        match = re.compile(parts["match"]) if parts["match"] is not None else None
        source = re.compile(parts["source"]) if parts["source"] is not None else None
    except re.error as error:
        raise ValueError(f"{text!r} has an invalid regular expression: {error}") from None
    target = re.sub(r"\$(\d)", r"\\g<\1>", parts["target"] or "")
    return KerberosRule(
        int(parts["count"]), parts["format"], match, source, target, bool(parts["all"]), parts["case"] or ""
    )


def short_name(principal: str, rules: tuple[KerberosRule, ...], default_realm: str) -> str:
    """Return the user name of a principal; NoRuleError if the rules yield none."""
    match = _NAME.fullmatch(principal)
    if match is None:
        raise NoRuleError("not a valid Kerberos principal")
    service, host, realm = match.groups()
    if host is None and realm is None:
        return service
    components = [service] if host is None else [service, host]
    for rule in rules:
        name = rule.apply(components, realm or "", default_realm)
        if name is not None:
            if not name or "/" in name or "@" in name:
                raise NoRuleError(
                    f"a rule maps it to {name!r}; a user name must not be empty or contain / or @"
                )
            return name
    raise NoRuleError("no rule of sasl.kerberos.principal.to.local.rules applies")
