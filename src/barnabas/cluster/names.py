"""Topic names: which are legal, and which would collide."""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.common.errors import ErrorCode, KafkaError

# 255 bytes of a file name, minus room for "-" and a partition number: Kafka's own limit.
MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def why_name_is_illegal(name: str) -> str | None:
    """The reason, in Kafka's words; None for a good name."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_topic_name(name: str) -> None:
    if reason := why_name_is_illegal(name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def can_collide(name: str) -> bool:
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Equal for names that Kafka's metrics cannot tell apart, because they write `.` as `_`."""
    return name.replace(".", "_")


def collision_index(names: Iterable[str]) -> dict[str, str]:
    return {collision_key(name): name for name in names if can_collide(name)}
