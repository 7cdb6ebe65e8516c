"""Parse a filter into a tree, by the grammar of CEL. Functions outside the closed list are rejected here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from barnabas.filters.syntax import (
    DEEPEST_BRACKETS,
    HIGHEST_TREE,
    MAX_BYTES,
    Call,
    Conditional,
    FilterError,
    Has,
    Index,
    ListOf,
    Literal,
    Logic,
    Macro,
    MapOf,
    Name,
    Select,
    SyntaxNode,
    children_of,
)

# -- Tokenizer: CEL's numbers, strings, names and signs, without unsigned numbers and byte strings -----

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


FUNCTIONS = {"size": 1, "timestamp": 1, "duration": 1}
METHODS = {
    "size": 0, "startsWith": 1, "endsWith": 1, "contains": 1, "matches": 1,
    "getFullYear": 0, "getMonth": 0, "getDate": 0, "getDayOfMonth": 0, "getDayOfWeek": 0, "getDayOfYear": 0,
    "getHours": 0, "getMinutes": 0, "getSeconds": 0, "getMilliseconds": 0,
}  # fmt: skip
MACROS = ("exists", "all")
KEYWORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
KNOWN = ", ".join([*sorted(FUNCTIONS.keys() | METHODS.keys()), *MACROS, "has"])
RELATIONS = ("==", "!=", "<", "<=", ">", ">=", "in")
MAX = (1 << 63) - 1

N = TypeVar("N", bound=SyntaxNode)


def parse(text: str) -> SyntaxNode:
    """Raises FilterError, with the column, if the text is not an expression."""
    return _Parser(tokens_of(text)).whole()


class _Parser:
    """Recursive descent: one method per precedence level."""

    def __init__(self, tokens: list[FilterToken]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> SyntaxNode:
        node = self._expression()
        if self._next.kind != "end":
            self._fail("an operator or the end")
        return node

    @property
    def _next(self) -> FilterToken:
        return self._tokens[self._at]

    def _take(self) -> FilterToken:
        token = self._next
        self._at += 1
        return token

    def _is(self, *words: str) -> bool:
        return self._next.kind in ("sign", "name") and self._next.value in words

    def _expect(self, word: str) -> FilterToken:
        if not self._is(word):
            self._fail(repr(word))
        return self._take()

    def _fail(self, expected: str) -> None:
        found = "the end" if self._next.kind == "end" else repr(self._next.value)
        raise FilterError(f"expected {expected}, found {found}", self._next.column)

    def _high(self, node: N) -> N:
        """Return the node with its height set."""
        height = 1 + max((child.height for child in children_of(node)), default=0)
        if height > HIGHEST_TREE:
            raise FilterError(f"operators are nested more than {HIGHEST_TREE} deep", node.column)
        object.__setattr__(node, "height", height)
        return node

    def _expression(self) -> SyntaxNode:
        self._depth += 1
        if self._depth > DEEPEST_BRACKETS + 1:
            raise FilterError(f"brackets are nested more than {DEEPEST_BRACKETS} deep", self._next.column)
        node = self._conditional()
        self._depth -= 1
        return node

    def _conditional(self) -> SyntaxNode:
        condition = self._any()
        if not self._is("?"):
            return condition
        column = self._take().column
        then = self._any()
        self._expect(":")
        return self._high(Conditional(condition, then, self._expression(), column=column))

    def _any(self) -> SyntaxNode:
        return self._logic("||", self._all)

    def _all(self) -> SyntaxNode:
        return self._logic("&&", self._relation)

    def _logic(self, operator: str, part: Callable[[], SyntaxNode]) -> SyntaxNode:
        parts, column = [part()], self._next.column
        while self._is(operator):
            self._take()
            parts.append(part())
        return parts[0] if len(parts) == 1 else self._high(Logic(operator, tuple(parts), column=column))

    def _relation(self) -> SyntaxNode:
        return self._binary(RELATIONS, self._sum)

    def _sum(self) -> SyntaxNode:
        return self._binary(("+", "-"), self._product)

    def _product(self) -> SyntaxNode:
        return self._binary(("*", "/", "%"), self._unary)

    def _binary(self, operators: tuple[str, ...], part: Callable[[], SyntaxNode]) -> SyntaxNode:
        node = part()
        while self._is(*operators):
            operator = self._take()
            node = self._high(Call(operator.value, (node, part()), column=operator.column))
        return node

    def _unary(self) -> SyntaxNode:
        if not self._is("!", "-"):
            return self._member()
        sign = self._next.value
        columns = []
        while self._is(sign):
            columns.append(self._take().column)
        if sign == "-" and self._next.kind in ("int", "double"):
            node = self._member(negative=True)
            columns.pop()
        else:
            node = self._member()
        for column in reversed(columns):
            node = self._high(Call("!" if sign == "!" else "negate", (node,), column=column))
        return node

    def _member(self, *, negative: bool = False) -> SyntaxNode:
        node = self._primary(negative)
        while self._is(".", "["):
            sign = self._take()
            if sign.value == "[":
                node = self._high(Index(node, self._expression(), column=sign.column))
                self._expect("]")
                continue
            name = self._name()
            node = self._method(node, name) if self._is("(") else self._field(node, name)
        return node

    def _field(self, base: SyntaxNode, name: FilterToken) -> SyntaxNode:
        return self._high(Select(base, name.value, column=name.column))

    def _name(self) -> FilterToken:
        if self._next.kind != "name" or self._next.value in ("in", *KEYWORDS):
            self._fail("a name")
        return self._take()

    def _method(self, base: SyntaxNode, name: FilterToken) -> SyntaxNode:
        if name.value in MACROS:
            return self._macro(base, name)
        arguments = self._arguments()
        _check_call(name, len(arguments), METHODS)
        return self._high(Call(name.value, (base, *arguments), column=name.column))

    def _macro(self, base: SyntaxNode, name: FilterToken) -> SyntaxNode:
        self._expect("(")
        variable = self._name().value
        self._expect(",")
        predicate = self._expression()
        self._expect(")")
        return self._high(Macro(name.value, base, variable, predicate, column=name.column))

    def _arguments(self) -> list[SyntaxNode]:
        self._expect("(")
        return self._until(")", self._expression)

    def _until(self, closing: str, part: Callable[[], Any], *, trailing: bool = False) -> list[Any]:
        found: list[Any] = []
        while not self._is(closing):
            found.append(part())
            if not self._is(closing):
                self._expect(",")
                if self._is(closing) and not trailing:
                    self._fail("an expression")
        self._take()
        return found

    def _primary(self, negative: bool) -> SyntaxNode:
        token = self._take()
        if token.kind == "text":
            return Literal(token.value, column=token.column)
        if token.kind in ("int", "double"):
            return _number(token, negative)
        if token.kind == "sign":
            return self._bracketed(token)
        if token.kind == "name" and token.value != "in":
            return self._named(token)
        self._at -= 1
        self._fail("an expression")
        raise AssertionError

    def _bracketed(self, sign: FilterToken) -> SyntaxNode:
        if sign.value == "(":
            node = self._expression()
            self._expect(")")
            return node
        if sign.value == "[":
            items = self._until("]", self._expression, trailing=True)
            return self._high(ListOf(tuple(items), column=sign.column))
        if sign.value == "{":
            return self._high(MapOf(tuple(self._until("}", self._entry, trailing=True)), column=sign.column))
        self._at -= 1
        self._fail("an expression")
        raise AssertionError

    def _entry(self) -> tuple[SyntaxNode, SyntaxNode]:
        key = self._expression()
        self._expect(":")
        return key, self._expression()

    def _named(self, name: FilterToken) -> SyntaxNode:
        if name.value in KEYWORDS:
            return Literal(KEYWORDS[name.value], column=name.column)
        if not self._is("("):
            return Name(name.value, column=name.column)
        arguments = self._arguments()
        if name.value == "has":
            return self._has(name, arguments)
        _check_call(name, len(arguments), FUNCTIONS)
        return self._high(Call(name.value, tuple(arguments), column=name.column))

    def _has(self, name: FilterToken, arguments: list[SyntaxNode]) -> SyntaxNode:
        if len(arguments) != 1 or not isinstance(arguments[0], Select):
            raise FilterError("has() takes a field, for example has(record.value.amount)", name.column)
        return self._high(Has(arguments[0].base, arguments[0].field, column=name.column))


def _number(token: FilterToken, negative: bool) -> Literal:
    value = -token.value if negative else token.value
    if token.kind == "int" and not -MAX - 1 <= value <= MAX:
        raise FilterError(f"{value} does not fit in 64 bits", token.column)
    return Literal(value, column=token.column)


def _check_call(name: FilterToken, count: int, known: dict[str, int]) -> None:
    if name.value not in known:
        raise FilterError(f"unknown function {name.value}(); available: {KNOWN}", name.column)
    if count != known[name.value]:
        raise FilterError(f"{name.value}() takes {known[name.value]} arguments, not {count}", name.column)
