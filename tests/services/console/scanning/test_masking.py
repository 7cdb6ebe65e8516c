"""Masked values can be neither displayed nor searched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from barnabas.services.console.scanning.model import HIDDEN, Hit, RecordMask, Search
from barnabas.services.console.scanning.worker.masking import hide
from barnabas.testing import EmbeddedBroker
from tests.services.console.scanning.conftest import Searcher

MASK = RecordMask(("card.number", "*.email", "**.iban"), ("token",), True)
SECRETS = ("4111", "ann@example.org", "DE89", "h4ck", "key-of-ann")


@pytest.fixture(scope="module")
def people(broker: EmbeddedBroker) -> str:
    topic = broker.create_topic("people", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    value = {
        "name": "Ann",
        "card": {"number": "4111", "month": 7},
        "home": {"email": "ann@example.org"},
        "accounts": [{"iban": "DE89", "deep": {"iban": "DE89"}}],
    }
    escaped = json.dumps({"card": {"number": "4111"}}).replace("4", "\\u0034")
    for one in (json.dumps(value), escaped, "text with 4111", "4111", '["4111"]', '"4111"'):
        producer.produce(
            topic, one.encode(), b"key-of-ann", headers=[("token", b"h4ck"), ("kind", b"person")]
        )
    producer.produce(topic, b"\xff4111", b"key-of-ann", headers=[("token", None)])
    assert producer.flush(30) == 0
    return topic


def find(searcher: Searcher, broker: EmbeddedBroker, topic: str, **wanted: Any) -> list[Hit]:
    hits, _ = searcher.search(
        broker.bootstrap_servers, Search(topic=topic, masks=(MASK,), with_hex=True, **wanted)
    )
    return hits


def test_hidden_fields_keys_and_headers_are_not_shown(
    searcher: Searcher, broker: EmbeddedBroker, people: str
) -> None:
    hits = find(searcher, broker, people)
    text = repr(hits)
    assert len(hits) == 7
    assert not [secret for secret in SECRETS if secret in text]
    oldest = hits[-1]
    assert json.loads(oldest.value.text)["card"] == {"number": HIDDEN, "month": 7}
    assert oldest.key.format == "masked"
    assert dict(oldest.headers)["kind"].text == "person"


@pytest.mark.parametrize(
    "wanted",
    [
        *({"find": secret} for secret in SECRETS),
        {"find": "41+", "regex": True},
        {"find": "[0-9]{4}", "regex": True},
        {"key": "key-of-ann"},
        {"key": "key*"},
        {"header": "token=h4ck"},
        {"header": "token=h*"},
        {"where": "record.value.card.number == '4111'"},
        {"where": "record.value.card.number.startsWith('4')"},
        {"where": "record.keyAsText.contains('ann')"},
        {"where": "record.headers.token == 'h4ck'"},
        {"where": "record.valueAsText.contains('DE89')"},
        {"where": "record.value.accounts.exists(a, a.iban == 'DE89')"},
    ],
)
def test_no_search_finds_a_record_by_hidden_values(
    wanted: dict[str, Any], searcher: Searcher, broker: EmbeddedBroker, people: str
) -> None:
    hits = find(searcher, broker, people, **wanted)
    assert hits == []


def test_visible_values_are_found(searcher: Searcher, broker: EmbeddedBroker, people: str) -> None:
    assert len(find(searcher, broker, people, find="Ann")) == 1
    assert len(find(searcher, broker, people, where="record.value.card.month == 7")) == 1
    assert len(find(searcher, broker, people, header="kind=person")) == 6


def test_values_without_fields_are_hidden_whole(
    searcher: Searcher, broker: EmbeddedBroker, people: str
) -> None:
    assert [hit.value.format for hit in find(searcher, broker, people)].count("masked") == 4


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(json_values)
def test_a_path_at_any_depth_leaves_no_such_field(value: Any) -> None:
    def leaves(settings: Any) -> list[Any]:
        if isinstance(settings, list):
            return [found for inner in settings for found in leaves(inner)]
        if isinstance(settings, dict):
            here = [settings["a"]] if "a" in settings else []
            return here + [found for inner in settings.values() for found in leaves(inner)]
        return []

    assert all(found == HIDDEN for found in leaves(hide(value, (("**", "a"),))))
    assert hide(value, ()) == value
