"""Reader of YAML files. Each error has a line number: unknown and duplicate keys, wrong types, aliases."""

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
"""Path from the root of a document to a node: keys of mappings, indexes in lists."""
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]|\[\.\.\.\]")


class DocumentError(ConfigError):
    """Error in a file; the text begins with the file and the line."""


class DocumentNode:
    """A node of the document, with its position."""

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
        """Yield path and line of each node below this one; for a value of a mapping, the line of its key."""
        yield path, self.line
        if isinstance(self._node, yaml.MappingNode):
            for name, (key, value) in self.fields.items():
                yield from value.lines((*path, name))
                yield (*path, name), key.line
        elif isinstance(self._node, yaml.SequenceNode):
            for number, item in enumerate(self.items):
                yield from item.lines((*path, number))

    def _part(self, node: Any) -> DocumentNode:
        return DocumentNode(self._path, node, self._error)

    @property
    def items(self) -> list[DocumentNode]:
        if not isinstance(self._node, yaml.SequenceNode):
            self.fail("expected a list, with one `- item` per line.")
        return [self._part(each) for each in self._node.value]

    @property
    def fields(self) -> dict[str, tuple[DocumentNode, DocumentNode]]:
        """Keys and values of a mapping, by key; duplicate keys are an error."""
        if not isinstance(self._node, yaml.MappingNode):
            self.fail("expected a mapping, for example `topic: logs`.")
        fields: dict[str, tuple[DocumentNode, DocumentNode]] = {}
        for key, value in self._node.value:
            node = self._part(key)
            if not isinstance(key, yaml.ScalarNode):
                node.fail("a key must be a string.")
            if key.value in fields:
                node.fail(f"duplicate key `{key.value}`.")
            fields[key.value] = (node, self._part(value))
        return fields

    def value(self, kind: type[T]) -> T:
        """Convert to this Struct; errors have the line of the invalid value."""
        self._check_keys(kind)
        try:
            return msgspec.convert(self.plain(), kind, strict=True)
        except msgspec.ValidationError as error:
            match = _WHERE.match(str(error))
            text, path = (match[1], match[2] or "") if match else (str(error), "")
            where = f" at `{path.removeprefix('.')}`" if path else ""
            self._at(path).fail(f"{text}{where}.")

    def known(self, word: DocumentNode, name: str, known: list[str]) -> None:
        """Fail for an unknown key, with the closest known one."""
        if name not in known:
            hint = did_you_mean(name, known) or f"; known keys: {', '.join(sorted(known))}."
            word.fail(f"unknown key `{name}`{hint}")

    def _check_keys(self, kind: type[msgspec.Struct]) -> None:
        inner = {field.encode_name: _struct_in(field.type) for field in msgspec.structs.fields(kind)}
        for name, (key, value) in self.fields.items():
            self.known(key, name, list(inner))
            section = inner[name]
            if section is not None:
                value._check_sections(section)

    def _check_sections(self, kind: type[msgspec.Struct]) -> None:
        """Check the keys of a section, or of each section in a list."""
        if isinstance(self._node, yaml.MappingNode):
            self._check_keys(kind)
        elif isinstance(self._node, yaml.SequenceNode):
            for each in self.items:
                each._check_sections(kind)

    def plain(self) -> Any:
        """Convert to dicts, lists, strings and numbers."""
        constructor = yaml.constructor.SafeConstructor()
        try:
            return constructor.construct_document(self._node)
        except yaml.YAMLError as error:
            self.fail(str(getattr(error, "problem", error)))

    def _at(self, path: str) -> DocumentNode:
        """Return the node at a path in msgspec's notation, or its closest ancestor."""
        node = self
        for step in _STEP.finditer(path):
            if step[1] is not None and isinstance(node._node, yaml.MappingNode) and step[1] in node.fields:
                node = node.fields[step[1]][1]
            elif step[2] is not None and isinstance(node._node, yaml.SequenceNode):
                node = node.items[int(step[2])]
        return node


def _struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    """Return the Struct in `Struct | None` or `list[Struct]`."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    inner = (_struct_in(part) for part in getattr(annotation, "__args__", ()))
    return next((struct for struct in inner if struct is not None), None)


def read_document(path: Path, error: type[Exception] = DocumentError, needs: str = "") -> DocumentNode:
    """Read a file; `error` is raised if it is invalid. `needs` is the required content to suggest for an empty file."""
    node = _compose(path, error)
    if node is None:
        raise error(f"{path} is empty; it needs at least `{needs}`.")
    return DocumentNode(str(path), node, error)


def read_values(path: Path, error: type[Exception] = DocumentError) -> Any:
    """Read a file as plain values; {} if it is empty."""
    node = _compose(path, error)
    if node is None:
        return {}
    document = DocumentNode(str(path), node, error)
    for _ in document.lines():  # finds duplicate keys
        pass
    return document.plain()


def _compose(path: Path, error: type[Exception]) -> Any:
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise error(f"{path} cannot be read: {problem.strerror}.") from None
    if len(data) > MAX_BYTES:
        raise error(f"{path} has {len(data)} bytes; the maximum is {MAX_BYTES}.")
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
    """Refuse aliases: a few lines of them can expand to gigabytes."""
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise error(f"{path}, line {event.start_mark.line + 1}: aliases (*name) are not supported.")
