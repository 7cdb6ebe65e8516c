"""Changes that cannot be taken back are typed out first."""

from __future__ import annotations

from barnabas.services.console.errors import BadInputError


def confirmed(typed: str, wanted: str) -> None:
    if typed.strip() != wanted:
        raise BadInputError(f"Nothing was done: type {wanted} to confirm it", "confirm")
