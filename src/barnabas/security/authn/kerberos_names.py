"""From the name of a Kerberos principal to that of a user: Kafka's `sasl.kerberos.principal.to.local.rules`.

    RULE:[2:$1@$0](.*@EXAMPLE\\.COM)s/@.*//     kafka/host@EXAMPLE.COM -> kafka
    DEFAULT                                     alice@OUR.REALM -> alice

The first rule that is about a name decides. `[n:format]` is about names of n components; `$0` in the format is the
realm, `$1` and `$2` are the components. What comes of it must match the expression in brackets, if there is one; then
`s/from/to/` replaces, everywhere with `g`; `/L` and `/U` make small and capital letters.
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
    """No rule is about a name, or what one makes of it is no name of a user."""


class Rule(NamedTuple):
    components: int = 0  # how many a name has; 0 for DEFAULT
    format: str = ""
    match: re.Pattern[str] | None = None
    source: re.Pattern[str] | None = None
    target: str = ""
    is_global: bool = False
    case: str = ""

    def apply(self, parts: list[str], realm: str, default_realm: str) -> str | None:
        """The user's name, or None when the rule is not about this one."""
        if not self.components:
            return parts[0] if realm == default_realm else None
        if len(parts) != self.components:
            return None
        words = [realm, *parts]
        base = _PARAMETER.sub(lambda found: _word(words, int(found[1])), self.format)
        if self.match is not None and not self.match.fullmatch(base):
            return None
        name = base if self.source is None else self.source.sub(self.target, base, 0 if self.is_global else 1)
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)


def _word(words: list[str], index: int) -> str:
    if index >= len(words):
        raise NoRuleError(f"a rule names ${index}, and there is no such component")
    return words[index]


def parse_rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """ValueError for what is no rule."""
    return tuple(_parse(text.strip()) for text in texts if text.strip())


def _parse(text: str) -> Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no rule: write DEFAULT, or RULE:[n:format](expression)s/from/to/")
    if found["default"]:
        return Rule()
    if found["count"] == "0":
        raise ValueError(f"{text!r} is about names of no component")
    try:
        match = re.compile(found["match"]) if found["match"] is not None else None
        source = re.compile(found["source"]) if found["source"] is not None else None
    except re.error as error:
        raise ValueError(f"{text!r} has an expression that cannot be read: {error}") from None
    target = re.sub(r"\$(\d)", r"\\g<\1>", found["target"] or "")
    return Rule(
        int(found["count"]), found["format"], match, source, target, bool(found["all"]), found["case"] or ""
    )


def short_name(principal: str, rules: tuple[Rule, ...], default_realm: str) -> str:
    """The name of the user behind a principal. NoRuleError when there is none."""
    found = _NAME.fullmatch(principal)
    if found is None:
        raise NoRuleError("it is no name of a Kerberos principal")
    service, host, realm = found.groups()
    if host is None and realm is None:
        return service
    components = [service] if host is None else [service, host]
    for rule in rules:
        name = rule.apply(components, realm or "", default_realm)
        if name is not None:
            if not name or "/" in name or "@" in name:
                raise NoRuleError("a rule makes a name of it that has / or @ in it, or none at all")
            return name
    raise NoRuleError("no rule of sasl.kerberos.principal.to.local.rules is about it")
