"""What is hidden of a topic's records. The search hides it before it looks for anything (`services/console/scanning`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.services.console.access.model import MaskRule, fits


class Hidden(NamedTuple):
    """As one mask of a search says it."""

    fields: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    key: bool = False

    def __bool__(self) -> bool:
        return bool(self.fields or self.headers or self.key)


NOTHING = Hidden()


def hidden_of(rules: Iterable[MaskRule], cluster: str, topic: str) -> Hidden:
    """All rules about a topic together."""
    about = [each for each in rules if fits(cluster, each.clusters) and fits(topic, each.topics)]
    return Hidden(
        tuple(dict.fromkeys(field for each in about for field in each.fields)),
        tuple(dict.fromkeys(header for each in about for header in each.headers)),
        any(each.key for each in about),
    )
