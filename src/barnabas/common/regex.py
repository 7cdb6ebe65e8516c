"""Regular expressions from clients: RE2, as in Kafka, because its time is linear in the text whatever the pattern.

Python's `re` tries alternatives one after the other: `(a|aa)*b` against 60 letters would keep the loop busy for days.
How long a pattern may be, and how much memory its program may take, is bounded here.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

MAX_UNICODE_CLASSES: Final = 100
r"""Such as \pL. RE2 takes 0.1 ms to parse one, before it sees that the program is too large."""


class PatternLimits:
    """What a pattern may cost, for the whole process, and how many were refused."""

    def __init__(self) -> None:
        self.characters = 4096
        """Ten times what a list of topics in a pattern usually has."""
        self.memory = 1 << 19
        """Bytes of the compiled program and its states; RE2 refuses a program that needs more."""
        self.instructions = 800
        """Of a pattern that is matched with long texts. With a text of 32 KB, the longest name on the wire, RE2 takes
        5 ms for the worst pattern of this size that was found, and 300 ms for one of twice the size. Names of topics
        have at most 249 characters and need no such bound."""
        self.refused = 0

    def use(self, *, characters: int, memory: int, instructions: int) -> None:
        self.characters, self.memory, self.instructions = characters, memory, instructions


limits = PatternLimits()


class PatternError(ValueError):
    """This is no pattern, or one that is too large; the text says why, `column` where, from 1 on, if that is known."""

    def __init__(self, why: str, column: int | None = None) -> None:
        super().__init__(why)
        self.column = column
        limits.refused += 1


def is_loaded() -> bool:
    return "re2" in sys.modules


def load() -> None:
    """Import RE2, in a thread other than the loop's. Its library (1.5 MB) is read first: Python links it holding
    the interpreter's lock, and must not wait for a disk meanwhile."""
    spec = find_spec("re2")
    for folder in (spec and spec.submodule_search_locations) or ():
        for library in Path(folder).glob("*.so"):
            library.read_bytes()
    import re2  # noqa: F401  # only imported


def compile_for_long_texts(pattern: str) -> Any:
    """The same for what is matched with names of any length, within `limits.instructions`."""
    compiled = compile_pattern(pattern)
    if compiled.programsize > limits.instructions:
        raise PatternError(
            f"it has {compiled.programsize} instructions, at most {limits.instructions} are allowed "
            "(barnabas.regex.max.instructions): use fewer alternatives or smaller repetitions"
        )
    return compiled


def compile_pattern(pattern: str) -> Any:  # re2 has no types
    """Raises PatternError for what RE2 does not know (references back, looking around) and what is too large."""
    import re2  # here, so that the command line starts without it

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


def _column(pattern: str, why: str, where: str) -> int | None:
    """RE2 quotes the part that is wrong. Of parentheses it quotes everything: then it is the one without a partner."""
    if why.endswith((" )", " (")):
        return _lonely_parenthesis(pattern)
    if why.startswith("trailing"):
        return len(pattern)
    found = pattern.rfind(where) if where else -1
    return found + 1 if found >= 0 else None


def _lonely_parenthesis(pattern: str) -> int | None:
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
