"""Parse durations: `10s`, `10 seconds`, `1 minute`, `2h`."""

from __future__ import annotations

import re

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_WORDS = {"millisecond": "ms", "second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d"}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)


def seconds_of(text: str) -> float:
    """Parse a duration into seconds: 120 for `"2 minutes"`; ValueError if it is invalid."""
    found = _FORM.fullmatch(text)
    if found is not None:
        word = found[2].lower()
        unit = word if word in _SECONDS else _WORDS.get(word.removesuffix("s"))
        if unit is not None:
            return float(found[1]) * _SECONDS[unit]
    raise ValueError(f"not a valid duration: {text!r} (examples: 10s, 5 minutes, 2h)")
