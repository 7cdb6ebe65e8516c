"""The shape of every decision: a pure function of the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from barnabas.cluster.deltas import Delta
from barnabas.cluster.image import MetadataImage

T = TypeVar("T")

Decided: TypeAlias = tuple[list[Delta], T]
"""What is to be stored (nothing, if empty) and what the caller is told."""

Decision: TypeAlias = Callable[[MetadataImage], Decided[T]]
