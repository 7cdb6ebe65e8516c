"""Parser of `sasl.jaas.config`, Java's login configuration:

org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="...";

Errors never quote the value: if it cannot be parsed, any part of it may be a password.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from barnabas.security.authn.credentials import SecuritySettingError

SETTING = "sasl.jaas.config"
_FORM = """must be MODULE required NAME="VALUE" ...; with one module, quotes around values and a semicolon at the end"""

_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"'=;]+)|([=;]))""", re.DOTALL)
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class LoginModule(NamedTuple):
    name: str  # without its package, which differs in shaded Kafka clients
    options: dict[str, str]


class _Token(NamedTuple):
    text: str
    is_mark: bool = False  # an unquoted `=` or `;`


def parse_jaas(text: str) -> LoginModule:
    tokens = _tokens(text.strip())
    if len(tokens) < 3 or tokens[1].text.lower() not in _FLAGS or tokens[-1] != _Token(";", True):
        raise SecuritySettingError(SETTING, _FORM)
    return LoginModule(tokens[0].text.rpartition(".")[2], _options(tokens[2:-1]))


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SecuritySettingError(SETTING, _FORM)
        double, single, word, mark = match.groups()
        quoted = double if double is not None else single
        tokens.append(_Token(mark or word or _unescaped(quoted or ""), mark is not None))
        position = match.end()
    return tokens


def _options(tokens: list[_Token]) -> dict[str, str]:
    if len(tokens) % 3:
        raise SecuritySettingError(SETTING, _FORM)
    options = {}
    for name, equals, value in zip(tokens[::3], tokens[1::3], tokens[2::3], strict=True):
        if name.is_mark or equals != _Token("=", True) or value.is_mark:
            raise SecuritySettingError(SETTING, _FORM)
        options[name.text] = value.text
    return options


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _CONTROL.get(match[1], match[1]), text, flags=re.DOTALL)
