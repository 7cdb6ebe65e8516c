"""Numbers of findings that the name and phrase checks still accept. They may only decrease.

`python -m tools.check_names --lower` and `python -m tools.check_words --lower` record an improvement.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")


def read(check: str) -> Any:
    return json.loads(FILE.read_text())[check]


def lower(check: str, counts: dict[str, int]) -> None:
    """Record `counts` where they are below the allowed ones; a folder without findings has no entry."""
    allowed = read(check)
    write(check, {name: min(allowed[name], counts[name]) for name in allowed if counts.get(name)})


def write(check: str, value: Any) -> None:
    FILE.write_text(
        json.dumps({**json.loads(FILE.read_text()), check: value}, indent=2, sort_keys=True) + "\n"
    )
