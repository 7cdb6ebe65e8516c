"""The one reader of YAML files. Every error has a line: unknown keys, duplicate keys, wrong types, aliases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec
import yaml  # type: ignore[import-untyped]

from barnabas.common.suggestions import did_you_mean
from barnabas.config.setting import ConfigError

MAX_BYTES = 1024 * 1024
T = TypeVar("T", bound=msgspec.Struct)
_WHERE = re.compile(r"^(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)
DocumentPath = tuple[str | int, ...]
"""From the top of a document to a part: keys of mappings, positions in lists."""
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]|\[\.\.\.\]")


class DocumentError(ConfigError):
    """Something in the file is wrong; the text begins with the file and the line."""


class Node:
    """A part of the file: what it says, and where."""

    def __init__(self, path: str, node: Any, error: type[Exception] = DocumentError) -> None:
        self._path = path
        self._node = node
        self._error = error

    def fail(self, text: str) -> NoReturn:
        raise self._error(f"{self._path}, line {self._node.start_mark.line + 1}: {text}")

    @property
    def line(self) -> int:
        return int(self._node.start_mark.line) + 1

    def lines(self, path: DocumentPath = ()) -> Iterator[tuple[DocumentPath, int]]:
        """The line of each part, by its path from here; of a key's value, the line of the key."""
        yield path, self.line
        if isinstance(self._node, yaml.MappingNode):
            for name, (key, value) in self.fields.items():
                yield from value.lines((*path, name))
                yield (*path, name), key.line
        elif isinstance(self._node, yaml.SequenceNode):
            for number, item in enumerate(self.items):
                yield from item.lines((*path, number))

    def _part(self, node: Any) -> Node:
        return Node(self._path, node, self._error)

    @property
    def items(self) -> list[Node]:
        if not isinstance(self._node, yaml.SequenceNode):
            self.fail("a list is expected here, each line with a dash.")
        return [self._part(each) for each in self._node.value]

    @property
    def fields(self) -> dict[str, tuple[Node, Node]]:
        """Words with their values; each stands once."""
        if not isinstance(self._node, yaml.MappingNode):
            self.fail("words with values are expected here, as `topic: logs`.")
        found: dict[str, tuple[Node, Node]] = {}
        for word, value in self._node.value:
            node = self._part(word)
            if not isinstance(word, yaml.ScalarNode):
                node.fail("a word is expected here.")
            if word.value in found:
                node.fail(f"duplicate key `{word.value}`.")
            found[word.value] = (node, self._part(value))
        return found

    def value(self, kind: type[T]) -> T:
        """As this Struct; the error names the line of what does not fit."""
        self._check_words(kind)
        try:
            return msgspec.convert(self.plain(), kind, strict=True)
        except msgspec.ValidationError as error:
            found = _WHERE.match(str(error))
            text, place = (found[1], found[2] or "") if found else (str(error), "")
            where = f" at `{place.removeprefix('.')}`" if place else ""
            self._at(place).fail(f"{text}{where}.")

    def known(self, word: Node, name: str, known: list[str]) -> None:
        """Fails for a word that is none of these, naming the nearest."""
        if name not in known:
            hint = did_you_mean(name, known) or f"; known are {', '.join(sorted(known))}."
            word.fail(f"`{name}` is no word that is known here{hint}")

    def _check_words(self, kind: type[msgspec.Struct]) -> None:
        inner = {field.encode_name: _struct_in(field.type) for field in msgspec.structs.fields(kind)}
        for name, (word, value) in self.fields.items():
            self.known(word, name, list(inner))
            section = inner[name]
            if section is not None:
                value._check_sections(section)

    def _check_sections(self, kind: type[msgspec.Struct]) -> None:
        """Of one section, or of each in a list."""
        if isinstance(self._node, yaml.MappingNode):
            self._check_words(kind)
        elif isinstance(self._node, yaml.SequenceNode):
            for each in self.items:
                each._check_sections(kind)

    def plain(self) -> Any:
        """As dicts, lists, texts and numbers."""
        constructor = yaml.constructor.SafeConstructor()
        try:
            return constructor.construct_document(self._node)
        except yaml.YAMLError as error:
            self.fail(str(getattr(error, "problem", error)))

    def _at(self, place: str) -> Node:
        """The part that a path of msgspec's names, or the nearest one around it."""
        node = self
        for step in _STEP.finditer(place):
            if step[1] is not None and isinstance(node._node, yaml.MappingNode) and step[1] in node.fields:
                node = node.fields[step[1]][1]
            elif step[2] is not None and isinstance(node._node, yaml.SequenceNode):
                node = node.items[int(step[2])]
        return node


def _struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    """The Struct in `Struct | None` or `list[Struct]`."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    inner = (_struct_in(part) for part in getattr(annotation, "__args__", ()))
    return next((found for found in inner if found is not None), None)


def read_document(path: Path, error: type[Exception] = DocumentError, needs: str = "") -> Node:
    """`error` is raised for what is wrong. `needs` is what stands in the file at least."""
    node = _compose(path, error)
    if node is None:
        raise error(f"{path} is empty; it needs at least `{needs}`.")
    return Node(str(path), node, error)


def read_values(path: Path, error: type[Exception] = DocumentError) -> Any:
    """The file as plain values; {} if it is empty."""
    node = _compose(path, error)
    if node is None:
        return {}
    document = Node(str(path), node, error)
    for _ in document.lines():  # finds duplicate keys
        pass
    return document.plain()


def _compose(path: Path, error: type[Exception]) -> Any:
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise error(f"{path} cannot be read: {problem.strerror}.") from None
    if len(data) > MAX_BYTES:
        raise error(f"{path} has {len(data)} bytes; such a file has at most {MAX_BYTES}.")
    try:
        text = data.decode()
        _refuse_aliases(text, path, error)
        return yaml.compose(text, yaml.SafeLoader)
    except UnicodeDecodeError:
        raise error(f"{path} is not valid UTF-8.") from None
    except (yaml.YAMLError, RecursionError) as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}" if mark is not None else str(path)
        raise error(f"{where}: invalid YAML: {getattr(problem, 'problem', problem)}.") from None


def _refuse_aliases(text: str, path: Path, error: type[Exception]) -> None:
    """A few lines of them can stand for gigabytes."""
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise error(f"{path}, line {event.start_mark.line + 1}: aliases (*name) are not supported.")
