"""Common base of the decoder and encoder generators: lines, blocks, variables, and yields after every few
elements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from barnabas.protocol import wire
from barnabas.protocol.schema import Message


class CodecSource(ABC):
    """Writes one function; `text` is its source and `names` are its globals.

    In steps, the function is a generator that yields after each STEP elements.
    """

    def __init__(
        self, cls: type[Message], version: int, wire_names: Iterable[str], *, in_steps: bool
    ) -> None:
        self.version = version
        self.flexible = cls.is_flexible(version)
        self.names: dict[str, Any] = {name: getattr(wire, name) for name in wire_names}
        self._in_steps = in_steps
        self._lines: list[str] = []
        self._indent = 1
        self._variables = 0
        self._pending: list[tuple[str, str]] = []
        """(struct code, target or expression) of fixed-width fields for the next call."""

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    @abstractmethod
    def _flush(self) -> None:
        """Read or write all pending fields with one call."""

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    @contextmanager
    def _block(self, header: str) -> Iterator[None]:
        """Indent the lines written inside; pending fields are flushed at both ends."""
        self._flush()
        self._line(header)
        self._indent += 1
        start = len(self._lines)
        yield
        self._flush()
        if len(self._lines) == start:
            self._line("pass")
        self._indent -= 1

    def _variable(self, prefix: str) -> str:
        self._variables += 1
        return f"{prefix}{self._variables}"

    def _begin_steps(self) -> None:
        if self._in_steps:
            self._line(f"left = {wire.STEP}")
            self._line("yield")

    def _count_element(self) -> None:
        if self._in_steps:
            self._flush()
            self._line("left -= 1")
            self._line("if not left:")
            self._line(f"    left = {wire.STEP}")
            self._line("    yield")
