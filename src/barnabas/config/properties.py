"""Parser of Java's .properties syntax, the format of Kafka's configuration files."""

from __future__ import annotations

import re

from barnabas.config.setting import ConfigError

_SEPARATOR = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Parse names and values; the last value of a duplicate name wins, as in Java."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _SEPARATOR.match(line)
        assert match is not None
        value = line[match.end() :].lstrip(" \t\f")
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(" \t\f")
        properties[_unescape(match[0])] = _unescape(value)
    return properties


def _logical_lines(text: str) -> list[str]:
    """Join continued lines (those that end with an odd number of backslashes); drop comments and blank lines."""
    lines: list[str] = []
    continued = False
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not continued and (not line or line[0] in "#!"):
            continue
        more = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        part = line[:-1] if more else line
        if continued:
            lines[-1] += part
        else:
            lines.append(part)
        continued = more
    return lines


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_one, text) if "\\" in text else text


def _unescape_one(match: re.Match[str]) -> str:
    body = match[1]
    if len(body) == 5:
        return chr(int(body[1:], 16))
    if body == "u":
        raise ConfigError(
            "The properties file contains a \\u that is not followed by four hexadecimal digits"
        )
    return _CONTROL.get(body, body)
