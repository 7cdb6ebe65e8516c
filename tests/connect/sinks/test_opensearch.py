"""A topic as documents of a real OpenSearch, with kills. `make connect-counterparts` runs it."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import EmbeddedBroker
from tests.connect.processes import run
from tests.connect.support import consume, headers_of, produce
from tests.support.databases.opensearch import OpenSearchServer, running_opensearch

pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]

RECORDS, KEYS = 6000, 300
DECLARED = """
name: searched
from: {{topic: {{topic: changes, schema: "id BIGINT, amount DOUBLE, word STRING", max_records: 300}}}}
to: {{opensearch: {{url: "{url}", index: changes, max_bytes: 20000}}}}
errors: {{topic: changes.dead}}
configuration: {{barnabas.bootstrap.servers: "{servers}"}}
"""


@pytest.fixture(scope="module")
def search() -> Iterator[OpenSearchServer]:
    with running_opensearch() as server:
        yield server


def test_documents_are_the_topics_folded_state_after_kills_in_the_middle(
    broker: EmbeddedBroker, search: OpenSearchServer, tmp_path: Path
) -> None:
    search.ask("PUT", "/changes", {"mappings": {"properties": {"word": {"type": "long"}}}})
    servers = broker.bootstrap_servers
    broker.create_topic("changes", partitions=3)
    rng = random.Random(7)
    produce(servers, "changes", [record(rng, number) for number in range(RECORDS)])
    (tmp_path / "searched.yml").write_text(DECLARED.format(url=search.url, servers=servers))

    for documents in (50, 200):
        run(tmp_path, "searched.yml", until=lambda documents=documents: count(search) >= documents)  # type: ignore[misc]
    run(tmp_path, "searched.yml", until=None)

    records = consume(servers, "changes")
    good = [one for one in records if one.value() is None or "word" not in json.loads(one.value())]
    expected = {one.key().decode(): (one.offset(), body_of(one)) for one in good}
    found = search.documents("changes")
    assert found == expected
    letters = [
        (headers_of(one)["errors.partition"], headers_of(one)["errors.offset"])
        for one in consume(servers, "changes.dead")
    ]
    assert sorted(letters) == sorted(
        (str(one.partition()), str(one.offset())) for one in records if one not in good
    )


def record(rng: random.Random, number: int) -> tuple[int, Any]:
    key = rng.randrange(KEYS)
    kind = rng.random()
    if kind < 0.1:
        return key, None
    value = {"id": number, "amount": rng.random()}
    return key, value | {"word": "no number"} if kind < 0.12 else value


def body_of(message: Any) -> dict[str, Any]:
    return {"deleted": True} if message.value() is None else json.loads(message.value())


def count(search: OpenSearchServer) -> int:
    try:
        found: int = search.ask("GET", "/changes/_stats/indexing")["_all"]["primaries"]["indexing"][
            "index_total"
        ]
        return found
    except OSError:
        return 0
