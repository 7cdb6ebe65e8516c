"""Validation of topic names, and collisions between them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.common.errors import ErrorCode, KafkaError

# Kafka's limit: 255 bytes of a file name, minus space for "-" and a partition number.
MAX_NAME_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def topic_name_error(name: str) -> str | None:
    """Reason why a name is invalid, in Kafka's wording; None if it is valid."""
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
    if reason := topic_name_error(name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def can_collide(name: str) -> bool:
    return "." in name or "_" in name


def collision_key(name: str) -> str:
    """Key that is equal for names that collide in Kafka's metrics, where `.` becomes `_`."""
    return name.replace(".", "_")


def collision_index(names: Iterable[str]) -> dict[str, str]:
    return {collision_key(name): name for name in names if can_collide(name)}
