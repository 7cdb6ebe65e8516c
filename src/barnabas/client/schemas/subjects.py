"""Names of schema registry subjects: context, name, and the topic a subject belongs to."""

from __future__ import annotations

import re

DEFAULT_CONTEXT = "."
_QUALIFIED = re.compile(r":(\.[^:]*):(.*)", re.DOTALL)


def context_of(subject: str) -> str:
    found = _QUALIFIED.fullmatch(subject)
    return found[1] if found else DEFAULT_CONTEXT


def name_of(subject: str) -> str:
    """The subject without its context."""
    found = _QUALIFIED.fullmatch(subject)
    return found[2] if found else subject


def topic_of(subject: str) -> str:
    """Topic of `TOPIC-key` and `TOPIC-value`; any other name is a topic name."""
    name = name_of(subject)
    for ending in ("-value", "-key"):
        if name.endswith(ending) and len(name) > len(ending):
            return name.removesuffix(ending)
    return name


def qualified(subject: str, context: str = DEFAULT_CONTEXT) -> str:
    """Canonical form of a subject; without a context it belongs to `context`."""
    found = _QUALIFIED.fullmatch(subject)
    where, name = (found[1], found[2]) if found else (context, subject)
    return name if where == DEFAULT_CONTEXT else f":{where}:{name}"
