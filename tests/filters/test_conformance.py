"""CEL's public conformance vectors (npm @bufbuild/cel-spec), as far as the subset supports them."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from barnabas.filters.binding import Root, bind
from barnabas.filters.compiling import compile_node
from barnabas.filters.layout import RowLayout
from barnabas.filters.moments import Duration, Timestamp, parse_duration, parse_timestamp
from barnabas.filters.parser import parse
from barnabas.filters.syntax import FilterError
from barnabas.filters.values import EvaluationError, equal, find

VERSION = "0.6.1"
DUMP = """
const {tests} = require('@bufbuild/cel-spec/testdata/conformance.js');
const found = [];
(function walk(suite, path) {
  for (const inner of suite.suites || []) walk(inner, [...path, inner.name]);
  for (const test of suite.tests || []) if (test.original) found.push({path: path.join('/'), ...test.original});
})(tests, []);
process.stdout.write(JSON.stringify(found));
"""

# Errors that CEL's type checker, which we lack, detects before evaluation; and messages.
NEEDS_A_CHECKER = (
    "type_deductions",
    "proto2",
    "proto3",
    "enums",
    "wrappers",
    "optionals",
    "block_ext",
    "namespace",
)


class OutsideError(Exception):
    """The vector needs features outside of the subset."""


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("there is no npm here, which brings the conformance vectors")
    folder = tmp_path_factory.mktemp("cel-spec")
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    done = subprocess.run([*install, f"@bufbuild/cel-spec@{VERSION}"], capture_output=True, timeout=120)
    if done.returncode:
        pytest.skip(f"npm cannot install the conformance vectors: {done.stderr.decode()[-200:]}")
    return _dump(folder)


def _dump(folder: Path) -> list[dict[str, Any]]:
    found = subprocess.run(["node", "-e", DUMP], cwd=folder, capture_output=True, check=True, timeout=60)
    vectors: list[dict[str, Any]] = json.loads(found.stdout)
    return vectors


def test_every_vector_of_the_subset_has_the_value_that_cel_gives_it(vectors: list[dict[str, Any]]) -> None:
    failures, passed = [], 0
    for vector in vectors:
        if vector["path"].startswith(NEEDS_A_CHECKER) or "container" in vector:
            continue
        try:
            problem = _problem(vector)
        except OutsideError:
            continue
        passed += problem is None
        if problem is not None:
            failures.append(f"{vector['path']}/{vector['name']}: {vector['expr']} {problem}")
    assert failures == []
    assert passed >= 560


def _problem(vector: dict[str, Any]) -> str | None:
    """None: as it should be."""
    expected = OutsideError if "evalError" in vector else _value(vector.get("value", {"boolValue": True}))
    names = {name: _value(bound["value"]) for name, bound in vector.get("bindings", {}).items()}
    try:
        found = _evaluate(vector["expr"], names)
    except FilterError as error:
        raise OutsideError from error
    except EvaluationError as error:
        return None if expected is OutsideError else f"failed: {error}"
    if expected is OutsideError:
        return f"is {found!r} and should fail"
    same = equal(found, expected) or (_is_nan(found) and _is_nan(expected))
    return None if same and type(found) is type(expected) else f"is {found!r}, not {expected!r}"


def _evaluate(text: str, names: dict[str, Any]) -> Any:
    tree = bind(parse(text), {name: Root(name, column=1) for name in names})
    layout = RowLayout.of_names(tree, names)
    return compile_node(tree, layout)([*names.values(), *layout.variables])


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _value(values: dict[str, Any]) -> Any:
    ((kind, value),) = values.items()
    if kind == "int64Value":
        return int(value)
    if kind == "doubleValue":
        return float(value)
    if kind in ("boolValue", "stringValue", "nullValue"):
        return value
    if kind == "listValue":
        return [_value(item) for item in value.get("values", [])]
    if kind == "mapValue":
        return _map([(_value(entry["key"]), _value(entry["value"])) for entry in value.get("entries", [])])
    if kind == "objectValue" and value["@type"].endswith("google.protobuf.Timestamp"):
        return parse_timestamp(value["value"])
    if kind == "objectValue" and value["@type"].endswith("google.protobuf.Duration"):
        return parse_duration(value["value"])
    raise OutsideError(kind)


def _map(entries: list[tuple[Any, Any]]) -> dict[Any, Any]:
    made = dict(entries)
    if len(made) != len(entries):
        raise OutsideError("True and 1 in one map")
    return made


def test_true_and_1_are_two_keys() -> None:
    assert find({1: "one"}, 1.0) == "one"
    assert not equal(find({1: "one"}, True), "one")
    assert equal(Timestamp(1), Timestamp(1))
    assert not equal(Timestamp(1), Duration(1))
