"""Counters of real Prometheus pages."""

import pytest

from barnabas.services.ingest.host.pages import (
    MetricsPage,
    PageError,
    page_of,
    parse_counters,
    rates,
    read_page,
)
from barnabas.testing import EmbeddedBroker
from tests.support.programs import free_port

PAGE = """\
# HELP orders_total Orders.
# TYPE orders_total counter
orders_total{shop="a b",say="}"} 10
orders_total{shop="c"} 5 1700000000000
# TYPE heat gauge
heat 99
# TYPE answer_seconds histogram
answer_seconds_bucket{le="+Inf"} 7
answer_seconds_count 7
answer_seconds_sum 3.5
# TYPE clicks counter
clicks_total 3
untyped_total 2
untyped 4
this is no sample
odd
"""


def test_counters_are_distinguished_from_gauges() -> None:
    found = parse_counters(PAGE)
    assert {name for name, _ in found} == {
        "orders_total",
        "answer_seconds_count",
        "answer_seconds_sum",
        "clicks_total",
        "untyped_total",
    }
    assert found["orders_total", 'shop="c"'] == 5


def test_rates_are_over_all_labels_and_survive_a_restart_of_the_program() -> None:
    before = {("a_total", "x"): 10.0, ("a_total", "y"): 100.0}
    now = {("a_total", "x"): 30.0, ("a_total", "y"): 4.0, ("a_total", "new"): 1000.0}
    assert rates(before, now, 2.0) == {"a_total": 12.0}


def test_the_page_of_a_real_broker_has_counters() -> None:
    address = f"127.0.0.1:{free_port()}"
    with EmbeddedBroker({"barnabas.metrics.listen": address}):
        look = read_page(f"http://{address}/metrics")
    assert ("process_cpu_seconds_total", "") in look.counters


def test_a_page_that_is_not_there_is_an_error_with_a_reason() -> None:
    with pytest.raises(PageError, match="refused"):
        read_page("http://127.0.0.1:1/metrics")


def test_pages_are_urls_of_http_perhaps_with_a_service() -> None:
    assert page_of("http://h:1/metrics", "me") == MetricsPage("me", "http://h:1/metrics")
    assert page_of("shop=http://h:1/metrics?a=b", "me") == MetricsPage("shop", "http://h:1/metrics?a=b")
    for wrong in ("file:///etc/passwd", "shop=file:///etc/passwd", "h:1", ""):
        with pytest.raises(ValueError, match="not a valid metrics page"):
            page_of(wrong, "me")
