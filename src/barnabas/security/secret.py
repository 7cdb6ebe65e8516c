"""Secrets in settings, and what is said about a setting that cannot be honoured."""

from __future__ import annotations

from dataclasses import dataclass


class SecuritySettingError(ValueError):
    """A setting that cannot be honoured; `problem` goes on where the setting's name ends."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(setting, problem)
        self.setting = setting
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.setting} {self.problem}"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that is shown to nobody by accident: neither in a log nor in a plan nor in an error."""

    text: str

    def __repr__(self) -> str:
        return "[hidden]"  # as Kafka shows passwords
