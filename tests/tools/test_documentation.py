"""Missing documentation, stale pages and dead links fail here."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from barnabas.cli.main import make_app
from barnabas.handlers.table import HANDLERS
from barnabas.protocol.api import OWN_API
from tests.support.kafka.catalogue import kafka_descriptions
from tests.support.kafka.jars import requires_java
from tools.check_docs import RULES
from tools.doc_apis import NOT_SERVED, compatibility_page
from tools.doc_command_lines import complaint_about

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__.replace("_", " "))
def test_the_documentation_has_no(rule: Callable[[], Iterator[str]]) -> None:
    assert list(rule()) == []


@requires_java
def test_the_page_of_apis_has_every_key_of_the_newest_kafka_with_its_versions_or_a_reason() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in compatibility_page().splitlines()
        if line.startswith("| ") and line[2].isdigit()
    ]
    described = {
        description["apiKey"]: (description["name"].removesuffix("Request"), description["validVersions"])
        for description in kafka_descriptions("kafka-clients").values()
        if description["type"] == "request"
    }
    rows = [row for row in rows if int(row[0]) < OWN_API]
    assert [(int(key), name) for key, name, *_ in rows] == [
        (key, name) for key, (name, _) in sorted(described.items())
    ]
    for key, _name, versions, status, note in rows:
        if status == "not served":
            assert note
        else:
            first, _, last = described[int(key)][1].partition("-")
            assert versions == f"{first} to {last or first}"


def test_implemented_feature_has_no_unsupported_reason() -> None:
    assert not NOT_SERVED.keys() & {handler.request_class.api_key for handler in HANDLERS}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("barnabas topics create orders --partitions 3  # a comment", ""),
        ("barnabas serve --data ./data | tee log --nothing", ""),
        ("barnabas topic list", "no command 'topic'"),
        ("barnabas topics create orders --partition 3", "no option --partition"),
        ("barnabas COMMAND --help", ""),
    ],
)
def test_command_lines_of_the_documentation_are_checked(text: str, complaint: str) -> None:
    assert complaint_about(typer.main.get_command(make_app()), text) == complaint
