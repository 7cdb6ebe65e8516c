"""The Python examples of README.md and docs/python-client.md run unchanged, each on a new broker."""

from __future__ import annotations

import ast
import asyncio
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest

import barnabas
from barnabas.testing import EmbeddedBroker
from tests.support.programs import PROJECT_ROOT

FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = 3  # then a loop that waits for more records is left
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "transaction.state.log.replication.factor": "1",
}


class EnoughError(Exception):
    """The loop of an example has run long enough."""


def snippets() -> Iterator[Any]:
    for page in ("README.md", "docs/python-client.md"):
        for number, code in enumerate(FENCE.findall((PROJECT_ROOT / page).read_text())):
            yield pytest.param(code, id=f"{page}-{number}")


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise EnoughError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except EnoughError:
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def prepared(code: str, bootstrap: str) -> dict[str, Any]:
    """The names that an example takes from its surroundings, and the records that it reads."""
    names: dict[str, Any] = {"work": print, "invoice": lambda record: record.value}
    names |= {name: getattr(barnabas, name) for name in ("Producer", "Consumer")}
    names["publish"] = lambda servers, topic, value: barnabas.Producer(servers).send(topic, value).result(60)
    if "consumer" in code and "as consumer" not in code:
        consumer = barnabas.Consumer(
            bootstrap,
            topics="orders",
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        names["consumer"] = consumer
    if "create_topic" not in code and "schema" not in code:
        with barnabas.Producer(bootstrap) as producer:
            for topic in ("orders", "jobs", "invoices"):
                producer.send(topic, b"before")
    with barnabas.Producer(bootstrap, transactional_id="offsets") as producer, producer.transaction():
        producer.send("others", b"one").result(60)
        producer.send_offsets({barnabas.TopicPartition("others", 0): 1}, "billing")
    return names


@pytest.mark.parametrize("code", list(snippets()))
def test_an_example_runs(
    code: str,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with EmbeddedBroker(GUARDED, registry="registry" in code) as broker:
        names = prepared(code, broker.bootstrap_servers)
        consumers = [names[name] for name in names if name == "consumer"]
        code = code.replace("localhost:9092", broker.bootstrap_servers)
        if "registry" in code:
            code = code.replace("http://localhost:8081", broker.registry_url)
        compiled = compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        awaited = None
        with stopped_after(SECONDS):
            awaited = eval(compiled, names)
        if asyncio.iscoroutine(awaited):
            with suppress(TimeoutError):
                asyncio.run(asyncio.wait_for(awaited, SECONDS))
        for name, function in names.items():
            if name.startswith("test_"):
                function(request.getfixturevalue("barnabas"), request.getfixturevalue("barnabas_topic"))
        for consumer in consumers:
            consumer.close()
    printed = capsys.readouterr().out
    if "print(record.partition" in code:
        assert "b'first'" in printed, printed
