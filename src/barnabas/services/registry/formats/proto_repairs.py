"""Schemas that protoc refuses and other registries take: an option that no file defines, a reference by another name.

The text that is registered stays as it is. What is compiled, and compared with other versions, is a text in which such
options are blank, and in which an import that no reference has stands for the references that nobody imports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.client.schemas.formats.well_known import well_known_files
from barnabas.services.registry.formats.protoc import ProtocError, compile_proto

MOST_ROUNDS = 5  # protoc names one unknown option of each message, field or enum at a time
_UNKNOWN_OPTION = re.compile(r'Option "(\([\w.]+\))[^"]*" unknown')
_IMPORT = re.compile(r'(?:^|(?<=[;}\s]))import\s+(?:public\s+|weak\s+)?"([^"\n]+)"\s*;')
_PAIRS = {"{": "}", "[": "]", "(": ")"}


def compile_leniently(text: str, dependencies: Mapping[str, str]) -> tuple[Any, str]:
    """(descriptors, the options that no file defines)"""
    text = import_references(text, dependencies)
    dropped: list[str] = []
    for _ in range(MOST_ROUNDS):
        try:
            return compile_proto(text, dependencies), " ".join(dropped)
        except ProtocError as error:
            unknown = {name for reason in error.reasons for name in _UNKNOWN_OPTION.findall(reason)}
            blank = text
            for name in sorted(unknown):
                blank = without_option(blank, name, dropped)
            if blank == text:
                raise
            text = blank
    return compile_proto(text, dependencies), " ".join(dropped)


def import_references(text: str, dependencies: Mapping[str, str]) -> str:
    """The first import that leads nowhere becomes imports of the references that are not imported."""
    imported = {found[1] for found in _IMPORT.finditer(text)}
    nowhere = imported - set(dependencies) - set(well_known_files())
    inner = {found[1] for other in dependencies.values() for found in _IMPORT.finditer(other)}
    unused = [name for name in dependencies if name not in imported and name not in inner]
    if not nowhere or not unused:
        return text
    instead = iter([" ".join(f'import "{name}";' for name in unused)])
    return _IMPORT.sub(lambda found: next(instead, "") if found[1] in nowhere else found[0], text)


def without_option(text: str, name: str, dropped: list[str]) -> str:
    """Blanks in place of an option, so that lines and columns stay."""
    statement = re.compile(rf"\boption\s*{re.escape(name)}")
    text = _blanked(text, statement, lambda at: (at, _end(text, at, ";") + 1), dropped)
    entry = re.compile(rf"[\[,]\s*{re.escape(name)}")
    return _blanked(text, entry, lambda at: _entry_bounds(text, at), dropped)


def _blanked(
    text: str, wanted: re.Pattern[str], bounds: Callable[[int], tuple[int, int]], dropped: list[str]
) -> str:
    """One pass, however often it is there."""
    pieces, done = [], 0
    while found := wanted.search(text, done):
        start, end = bounds(found.start())
        dropped.append(" ".join(text[start:end].split()))
        pieces += [text[done:start], re.sub(r"[^\n]", " ", text[start:end])]
        done = end
    return "".join([*pieces, text[done:]])


def _entry_bounds(text: str, before: int) -> tuple[int, int]:
    """With one of the commas around an entry of a list; with the brackets if it is the only one."""
    after = _end(text, before + 1, ",]")
    if text[before] == ",":
        return before, after
    return (before + 1, after + 1) if text[after : after + 1] == "," else (before, after + 1)


def _end(text: str, at: int, stops: str) -> int:
    """Where a value ends: at one of the signs, outside of strings and of brackets."""
    open_: list[str] = []
    while at < len(text):
        sign = text[at]
        if sign in "\"'":
            at = _after_string(text, at) - 1
        elif not open_ and sign in stops:
            return at
        elif sign in _PAIRS:
            open_.append(_PAIRS[sign])
        elif open_ and sign == open_[-1]:
            open_.pop()
        at += 1
    return len(text)


def _after_string(text: str, at: int) -> int:
    quote, at = text[at], at + 1
    while at < len(text) and text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return at + 1
