"""Regular expressions from clients: RE2, as in Kafka, because its matching time is linear in the text.

Python's `re` backtracks: `(a|aa)*b` against 60 letters would block the event loop for days. Pattern length and program
size are limited.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

MAX_UNICODE_CLASSES: Final = 100
r"""Maximum number of classes such as \pL. RE2 takes 0.1 ms to parse each, before it rejects a program as too large."""


class PatternLimits:
    """Process-wide limits on patterns, and the number of rejected ones."""

    def __init__(self) -> None:
        self.characters = 4096
        """Ten times the length of a typical pattern that lists topics."""
        self.memory = 1 << 19
        """Bytes of the compiled program and its states; RE2 rejects larger programs."""
        self.instructions = 800
        """Limit for patterns that match long texts. With a text of 32 KB, the longest name on the wire, RE2 takes 5 ms
        for the worst known pattern of this size, and 300 ms for one of twice the size. Topic names have at most 249
        characters and need no such limit."""
        self.refused = 0

    def use(self, *, characters: int, memory: int, instructions: int) -> None:
        self.characters, self.memory, self.instructions = characters, memory, instructions


limits = PatternLimits()


class PatternError(ValueError):
    """Invalid or too large pattern; the message is the reason, `column` the position from 1, or None if unknown."""

    def __init__(self, error: str, column: int | None = None) -> None:
        super().__init__(error)
        self.column = column
        limits.refused += 1


def is_loaded() -> bool:
    return "re2" in sys.modules


def load() -> None:
    """Import RE2; call it in a thread. Reads the library (1.5 MB) first: the import holds the GIL while it links the
    library and must not wait for the disk."""
    spec = find_spec("re2")
    for folder in (spec and spec.submodule_search_locations) or ():
        for library in Path(folder).glob("*.so"):
            library.read_bytes()
    import re2  # noqa: F401  # only imported


def compile_for_long_texts(pattern: str) -> Any:
    """Compile a pattern for names of any length, within `limits.instructions`."""
    compiled = compile_pattern(pattern)
    if compiled.programsize > limits.instructions:
        raise PatternError(
            f"it has {compiled.programsize} instructions, at most {limits.instructions} are allowed "
            "(barnabas.regex.max.instructions): use fewer alternatives or smaller repetitions"
        )
    return compiled


def compile_pattern(pattern: str) -> Any:  # re2 has no types
    """Compile a pattern; PatternError if it is too large or not supported by RE2 (backreferences, lookaround)."""
    import re2  # imported late: the command line starts faster without it

    if len(pattern) > limits.characters:
        raise PatternError(
            f"it has {len(pattern)} characters, at most {limits.characters} are allowed (barnabas.regex.max.characters)"
        )
    if pattern.count(r"\p") + pattern.count(r"\P") > MAX_UNICODE_CLASSES:
        raise PatternError(
            rf"it has more than {MAX_UNICODE_CLASSES} Unicode classes such as \pL: use fewer of them"
        )
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = limits.memory
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why, _, where = error.args[0].decode(errors="replace").partition(": ")
        raise PatternError(why, _column(pattern, why, where)) from None
    except UnicodeError:
        raise PatternError("it contains half of a character") from None


def _column(pattern: str, error: str, where: str) -> int | None:
    """Locate the part that RE2 quotes. For parentheses it quotes the whole pattern: find the unmatched one."""
    if error.endswith((" )", " (")):
        return _unmatched_parenthesis(pattern)
    if error.startswith("trailing"):
        return len(pattern)
    found = pattern.rfind(where) if where else -1
    return found + 1 if found >= 0 else None


def _unmatched_parenthesis(pattern: str) -> int | None:
    opened: list[int] = []
    in_class = escaped = False
    for column, character in enumerate(pattern, 1):
        if escaped or character == "\\":
            escaped = not escaped
        elif in_class or character == "[":
            in_class = character != "]"
        elif character == "(":
            opened.append(column)
        elif character == ")":
            if not opened:
                return column
            opened.pop()
    return opened[-1] if opened else None
