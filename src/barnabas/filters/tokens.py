"""Tokenizer: CEL's numbers, strings, names and signs, without unsigned numbers and byte strings."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from barnabas.filters.syntax import MAX_BYTES, FilterError

_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\r\n\f]+|//[^\n]*)
    | (?P<text>[rR]?(?:\"{3}(?s:.*?)(?<!\\)\"{3}|'{3}(?s:.*?)(?<!\\)'{3}
                   |"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*'))
    | (?P<bytes>[bB][rR]?["']|[rR][bB]["'])
    | (?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<int>0[xX][0-9a-fA-F]+|\d+)(?P<unsigned>[uU])?
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign>&&|\|\||==|!=|<=|>=|[-<>+*/%!?:,.()\[\]{}])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(
    r"\\(?:(?P<plain>[abfnrtv\\?\"'`])|[xX](?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|(?P<octal>[0-3][0-7]{2})|(?P<wrong>.?))",
    re.DOTALL,
)
_PLAIN = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


class FilterToken(NamedTuple):
    kind: str  # text, double, int, name, sign or end
    value: Any
    column: int


def tokens_of(text: str) -> list[FilterToken]:
    """The last token has the kind `end`."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise FilterError(f"a filter may have at most {MAX_BYTES} bytes", MAX_BYTES + 1)
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise FilterError(f"unexpected character {text[position]!r}", position + 1)
        if match.lastgroup != "blank":
            found.append(_token(match, position + 1))
        position = match.end()
    return [*found, FilterToken("end", "the end", len(text) + 1)]


def _token(match: re.Match[str], column: int) -> FilterToken:
    kind = match.lastgroup or ""
    if kind == "unsigned":
        raise FilterError("unsigned numbers are not supported: remove the u", column)
    if kind == "bytes":
        raise FilterError("byte strings are not supported: remove the b", column)
    word = match.group(kind)
    if kind == "text":
        return FilterToken(kind, _text(word, column), column)
    if kind == "double":
        return FilterToken(kind, float(word), column)
    if kind == "int":
        return FilterToken(kind, int(word, 16 if word[:2] in ("0x", "0X") else 10), column)
    return FilterToken(kind, word, column)


def _text(word: str, column: int) -> str:
    raw = word[0] in "rR"
    word = word[raw:]
    quotes = 3 if word[:3] in ('"""', "'''") else 1
    inner = word[quotes:-quotes]
    if raw:
        return inner
    return _ESCAPE.sub(lambda match: _escaped(match, column + quotes), inner)


def _escaped(match: re.Match[str], column: int) -> str:
    kind = match.lastgroup or ""
    word = match.group(kind)
    if kind == "plain":
        return _PLAIN.get(word, word)
    number = 0xD800 if kind == "wrong" else int(word, 8 if kind == "octal" else 16)
    if 0xD800 <= number < 0xE000 or number > 0x10FFFF:
        raise FilterError(f"{match.group()!r} is not a valid character", column + match.start())
    return chr(number)
