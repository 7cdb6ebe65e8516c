"""YAML whose values know the lines they stand in, so that a mistake is told with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from barnabas.spark.errors import PipelineError

Place = tuple[str | int, ...]
"""The way from the top of a document to a value: names of mappings, numbers in lists."""

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")


@dataclass(frozen=True)
class LinedDocument:
    path: Path
    value: Any
    lines: dict[Place, int]

    def error(self, place: Place, text: str) -> PipelineError:
        """`text` with the file and the line of what is meant, or of the nearest thing around it."""
        while place and place not in self.lines:
            place = place[:-1]
        line = self.lines.get(place)
        where = f"{self.path}, line {line}" if line is not None else str(self.path)
        return PipelineError(f"{where}: {text}")


def read_lines(path: Path) -> LinedDocument:
    """PipelineError for a file that is not there, is no YAML, or says a word twice."""
    try:
        root = yaml.compose(path.read_text(), Loader=yaml.SafeLoader)
        lines = {} if root is None else dict(_walk(root, (), path))
        value = yaml.safe_load(path.read_text())
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise PipelineError(f"{path} is no text in UTF-8.") from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark is not None else str(path)
        raise PipelineError(f"{where}: this is no YAML.", str(error)) from None
    return LinedDocument(path, value, lines)


def place_in(text: str) -> Place:
    """Of msgspec's errors: `$.to.jdbc[2].keys` as a place."""
    steps = _STEP.finditer(text.removeprefix("$"))
    return tuple(int(step[2]) if step[2] is not None else step[1] for step in steps if step[0] != "[...]")


def _walk(node: Any, place: Place, path: Path) -> Iterator[tuple[Place, int]]:
    yield place, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise PipelineError(f"{path}, line {line}: `{key.value}` stands here twice.")
            seen.add(key.value)
            yield from _walk(value, (*place, key.value), path)
            yield (*place, key.value), key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _walk(value, (*place, number), path)
