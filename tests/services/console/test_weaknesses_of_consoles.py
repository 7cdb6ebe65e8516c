"""Vulnerabilities of other consoles (docs/security.md): filters run as code, user-chosen addresses."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from barnabas.services.console.pages import route_table
from barnabas.testing import EmbeddedBroker
from tests.services.console.web import Web

CODE = [
    "__import__('os').system('touch {file}') == 0",
    "().__class__.__base__.__subclasses__() != null",
    'new java.io.File("{file}").createNewFile()',
    '"touch {file}".execute() != null',
    'T(java.lang.Runtime).getRuntime().exec("touch {file}") != null',
    "record.value.getClass().forName('java.lang.Runtime') != null",
    "eval(record.value)",
]
ADDRESSES = ("bootstrap", "jmx", "url", "uri", "endpoint", "class", "classpath", "properties")


@pytest.mark.parametrize("text", CODE)
def test_cve_2023_52251_and_2026_5562_and_2026_78166_a_filter_is_never_run_as_code(
    web: Web, console_broker: EmbeddedBroker, tmp_path: Path, text: str
) -> None:
    topic = console_broker.create_topic(f"filtered-{abs(hash(text))}")
    answer = web.api(f"/topics/{topic}/records", wait="true", where=text.format(file=tmp_path / "made"))
    assert answer.status == 400
    assert answer.json["field"] == "where"
    assert not (tmp_path / "made").exists()


def test_cve_2024_32030_no_visitor_names_an_address_that_the_console_connects_to(web: Web) -> None:
    for route in route_table().routes:
        names = {each.encode_name.lower() for each in msgspec.structs.fields(route.query)}
        assert not [name for name in names if name.startswith(ADDRESSES)], route.path
    for path in (
        "/api/config",
        "/api/v1/config",
        "/api/v1/clusters",
        "/actuator/heapdump",
        "/api/v1/c/other/topics",
    ):
        assert web.ask("GET", path).status == 404
        assert web.ask("PUT", path, b"{}").status in (404, 405)
