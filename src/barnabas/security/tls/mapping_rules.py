"""`ssl.principal.mapping.rules` (KIP-371): from the distinguished name of a certificate to the name of a user.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),.*$/$1@cluster/L,DEFAULT

The first rule whose pattern matches the whole name decides. L and U make the result lower or upper case; DEFAULT
takes the name as it is. Names come from clients, so patterns are RE2's: no references back in a pattern, no looking
around.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Self

from barnabas.security.secret import SecuritySettingError

SETTING = "ssl.principal.mapping.rules"
DEFAULT = "DEFAULT"

# A part between slashes: anything, and slashes with a backslash before them.
_PART = r"((?:\\.|[^\\/])*)"
_RULE = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?))\s*(?:,|$)")
_GROUP = re.compile(r"\\(.)|\$([1-9][0-9]*|0)")


class NoRuleAppliesError(ValueError):
    def __init__(self, name: str) -> None:
        super().__init__(f"no rule of {SETTING} applies to {name}")


class Rule(NamedTuple):
    pattern: Any  # compiled by RE2, which has no types; None for DEFAULT
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
        """Java's syntax: $1 is a group, a backslash takes the next character as it is."""

        def found(reference: re.Match[str]) -> str:
            escaped, digits = reference.groups()
            if escaped is not None:
                return str(escaped)
            # As many digits as there are groups for; the others are text.
            while len(digits) > 1 and int(digits) > self.pattern.groups:
                digits = digits[:-1]
            if int(digits) > self.pattern.groups:
                return str(reference[0])
            return (match[int(digits)] or "") + reference[2][len(digits) :]

        return _GROUP.sub(found, self.replacement)


class MappingRules:
    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules

    @classmethod
    def parse(cls, text: str) -> Self:
        rules, rest = [], text.strip()
        while rest:
            match = _RULE.match(rest)
            if match is None:
                raise SecuritySettingError(
                    SETTING,
                    f"has {rest!r}, which is no rule: write RULE:PATTERN/REPLACEMENT/[L|U] or DEFAULT",
                )
            default, pattern, replacement, case = match.groups()
            rules.append(Rule(None) if default else Rule(_compiled(pattern), replacement, case))
            rest = rest[match.end() :].lstrip()
        return cls(tuple(rules) or (Rule(None),))

    def name_of(self, distinguished_name: str) -> str:
        for rule in self._rules:
            name = rule.name_of(distinguished_name)
            if name is not None:
                return name
        raise NoRuleAppliesError(distinguished_name)


def _compiled(pattern: str) -> Any:
    import re2  # here, so that the command line starts without it

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace")
        raise SecuritySettingError(
            SETTING, f"has the pattern {pattern!r}, which cannot be used: {why}"
        ) from None
