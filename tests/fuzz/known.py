"""What is known to be too slow or too large today and is being fixed elsewhere. To be emptied, and then removed.

(API, kind of failure): the reason. "*" stands for every API. The fuzzer counts these and goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.judging import Failure

KNOWN: dict[tuple[str, str], str] = {}


def reason(failure: Failure) -> str | None:
    return KNOWN.get(failure.key) or KNOWN.get(("*", failure.kind))


def is_known(failure: Failure) -> bool:
    return reason(failure) is not None
