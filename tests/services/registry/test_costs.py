"""Schemas with excessive cost are rejected or compared within bounds, while others are served."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.client.addresses import Address
from barnabas.services.registry.limits import InvalidLimitError, SchemaLimits, limits
from barnabas.services.registry.server import RegistryServer, RegistrySettings
from barnabas.testing import EmbeddedBroker
from tests.services.registry import heavy_schemas
from tests.services.registry.heavy_schemas import Pair, text_of
from tests.support.extremes import Steps, sparing
from tests.support.registry import Answer, Rest

MEGABYTE = 1024 * 1024
MAX_STEP = 0.02  # seconds of CPU on the event loop
ANSWERS = (200, 409, 422)
MAX_STEPS = SchemaLimits().max_steps


@pytest.fixture(autouse=True)
def one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "max_seconds", 1)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    with sparing():
        yield Steps(monkeypatch)


def peak_bytes() -> int:
    """Since it was last asked."""
    status = Path("/proc/self/status").read_text().splitlines()
    found = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in status if line.endswith("kB")}
    Path("/proc/self/clear_refs").write_text("5")
    return found["VmHWM"]


class Others:
    """Another client that sends requests while the first one waits."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.served = 0

    def __enter__(self) -> Others:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        with Rest(self._url) as rest:
            while not self._stop.wait(0.005):
                assert rest.get("/subjects").status == 200
                self.served += 1


def compare(rest: Rest, subject: str, pair: Pair) -> list[Answer]:
    kind, older, newer = pair
    body = {"schema": text_of(newer), "schemaType": kind}
    first = rest.register(subject, text_of(older), kind)
    second = rest.register(subject, text_of(newer), kind)
    third = rest.post(f"/compatibility/subjects/{subject}/versions/latest?verbose=true", body)
    return [first, second, third]


def test_a_chain_of_references_reports_the_first_problems_only(rest: Rest) -> None:
    answers = compare(rest, "chain", heavy_schemas.ref_chain())
    assert [one.status for one in answers] == [200, 409, 200]
    assert 0 < len(answers[2].body["messages"]) <= 100


def test_a_large_union_of_which_nothing_changes_is_compared_in_linear_time(rest: Rest) -> None:
    kind, older, _ = heavy_schemas.avro_union()
    newer = [*older[1:], {"type": "record", "name": "New", "fields": []}, older[0]]
    rest.put("/config/union", {"compatibility": "FULL"})
    assert rest.register("union", text_of(older), kind).status == 200
    assert (
        rest.register("union", text_of(newer), kind).status == 409
    )  # old readers do not know the new branch
    rest.put("/config/union", {"compatibility": "BACKWARD"})
    assert rest.register("union", text_of(newer), kind).status == 200


def test_a_comparison_of_many_steps_is_made_by_the_worker_and_a_breach_does_not_end_that(rest: Rest) -> None:
    """120 alternatives that have all changed are 14,400 pairs: more than are compared at once; 1,500 are too many."""
    for count, status in ((120, 409), (1_500, 422), (120, 409)):
        kind, older, newer = heavy_schemas.alternatives(count)
        older["title"] = f"{count} {status}"  # so that no result is remembered
        subject = f"alternatives-{count}"
        rest.put(f"/config/{subject}", {"compatibility": "BACKWARD"})
        assert rest.register(subject, text_of(older), kind).status == 200
        newer["title"] = f"{count} newer"
        answer = rest.register(subject, text_of(newer), kind)
        assert answer.status == status
        assert status == 409 or "--limit max-steps" in answer.body["message"]


def test_a_list_of_all_schemas_is_given_in_short_steps(registry_broker: EmbeddedBroker, steps: Steps) -> None:
    """Large schemas, many of them, as if they had been read from the topic."""

    async def work() -> None:
        settings = RegistrySettings(
            registry_broker.bootstrap_servers, listen=Address("127.0.0.1", 0), topic="_many", group="many"
        )
        async with RegistryServer(settings) as server:
            text = json.dumps({"type": "enum", "name": "E", "symbols": ["S" * 20_000]})
            for at in range(1_000):
                key = {"keytype": "SCHEMA", "subject": f"s{at}", "version": 1, "magic": 1}
                value = {"subject": f"s{at}", "version": 1, "id": at + 1, "schema": f"{text}{at}"}
                server.store.state.replay(json.dumps(key).encode(), json.dumps(value).encode())
            await asyncio.sleep(0)  # ends the step that created them
            steps.restart()

            def ask() -> int:
                with Rest(server.url) as rest:
                    return len(rest.get("/schemas").body)

            assert await asyncio.to_thread(ask) == 1_000
            assert steps.longest < MAX_STEP, steps.what

    asyncio.run(work())


# Behind the tests of the default limits: a worker process keeps the limits that it was started with.
@pytest.mark.parametrize("max_steps", [MAX_STEPS // 5, pytest.param(MAX_STEPS, marks=pytest.mark.extended)])
@pytest.mark.parametrize("make", heavy_schemas.PAIRS, ids=lambda make: make.__name__)
def test_a_heavy_schema_costs_others_little(
    registry_broker: EmbeddedBroker,
    rest: Rest,
    steps: Steps,
    make: Callable[[], Pair],
    max_steps: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "max_steps", max_steps)
    pair = make()
    size = len(text_of(pair[1]))
    peak_bytes()
    before = peak_bytes()
    with Others(registry_broker.registry_url) as others:
        steps.restart()
        answers = compare(rest, f"{make.__name__}-{max_steps}", pair)
        longest, what = steps.longest, steps.what
    assert all(one.status in ANSWERS or one.body.get("error_code") == 40402 for one in answers), answers
    assert others.served > 0
    assert longest < MAX_STEP, what
    assert peak_bytes() - before < 6 * size + 64 * MEGABYTE


def test_limits_have_names_and_numbers() -> None:
    found = SchemaLimits()
    found.set("max-steps=7")
    assert found.max_steps == 7
    copy = SchemaLimits()
    for text in found.to_arguments():
        copy.set(text)
    assert copy == found
    for text in (
        "max-steps",
        "max-steps=0",
        "max-steps=x",
        "max-steps=" + "9" * 5000,
        "quick_steps=1",
        "x=1",
    ):
        with pytest.raises(InvalidLimitError):
            found.set(text)


def test_the_documentation_shows_every_limit_and_its_default() -> None:
    page = (Path(__file__).parents[3] / "docs" / "registry.md").read_text()
    for text in SchemaLimits().to_arguments():
        name, _, value = text.partition("=")
        assert f"| `{name}` | {value} |" in page
