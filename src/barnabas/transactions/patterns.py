"""Regular expressions from clients: only such as cannot take forever.

Kafka matches with RE2, whose time is linear. Python's `re` tries alternatives one after the other, so a repetition
inside a repetition could keep the loop busy for hours; together with what RE2 does not know (references
back, looking around), it is refused.
"""

from __future__ import annotations

import re
from re import _constants as constants  # type: ignore[attr-defined]  # the tree's vocabulary
from re import _parser as parser  # type: ignore[attr-defined]  # the only way to see a pattern's structure
from typing import Any

from barnabas.errors import ErrorCode, KafkaError

LONGEST_PATTERN = 1000

_REPEATS = (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT)
_FORBIDDEN = (constants.GROUPREF, constants.GROUPREF_EXISTS, constants.ASSERT, constants.ASSERT_NOT)


def safe_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern, or say INVALID_REGULAR_EXPRESSION."""
    try:
        if len(text) > LONGEST_PATTERN:
            raise _refused(text[:20] + "...", f"it is longer than {LONGEST_PATTERN} characters")
        _check(parser.parse(text), text, repeated=False)
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise _refused(text, str(error)) from None


def _check(tree: Any, text: str, *, repeated: bool) -> None:
    for operation, argument in tree:
        if operation in _FORBIDDEN:
            raise _refused(text, "references back and looking around are not supported")
        if operation in _REPEATS and repeated:
            raise _refused(text, "a repetition inside a repetition is not supported")
        for part in _subtrees(argument):
            _check(part, text, repeated=repeated or operation in _REPEATS)


def _subtrees(argument: Any) -> list[Any]:
    if isinstance(argument, parser.SubPattern):
        return [argument]
    if isinstance(argument, (list, tuple)):
        return [tree for part in argument for tree in _subtrees(part)]
    return []


def _refused(text: str, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{text!r} cannot be used as a pattern: {reason}")
