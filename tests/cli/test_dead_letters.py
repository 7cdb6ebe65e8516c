"""Dead letters: which are left, which are picked out, and sending them back."""

from __future__ import annotations

import itertools
import time

import pytest

from barnabas.cli.dead_letters import Filter, Redriven, read_letter
from barnabas.client.opening import ConsumedRecord
from barnabas.queues.dead_letters import REJECTED, GivenUp, dead_letters
from barnabas.records.record import Record
from barnabas.types import TopicPartition
from tests.cli.conftest import Cli

_numbers = itertools.count()
PATIENCE = 60.0


def test_what_was_sent_back_out_of_order_is_remembered_until_the_rest_is() -> None:
    redriven = Redriven(10)
    for offset in (12, 13, 17):
        redriven.add(offset)
    assert redriven.metadata() == "12-13 17"
    again = Redriven.read(redriven.position, redriven.metadata())
    assert [offset for offset in range(8, 20) if offset not in again] == [10, 11, 14, 15, 16, 18, 19]
    again.add(10)
    again.add(11)
    assert (again.position, again.metadata()) == (14, "17")


def test_more_than_a_commit_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="older ones first"):
        Redriven(0, set(range(1, 10_000, 2))).metadata()


def test_a_letter_tells_where_it_comes_from_and_keeps_its_own_headers() -> None:
    given_up = GivenUp("workers", TopicPartition("jobs", 3), 5, REJECTED)
    (record,) = dead_letters(given_up, [Record(42, 0, b"k", b"v", (("a", b"b"),))], 7, copied=True)
    letter = read_letter(ConsumedRecord("dlq.jobs", 0, *record))
    assert letter is not None
    assert (letter.origin, letter.origin_offset) == (TopicPartition("jobs", 3), 42)
    assert (letter.group, letter.deliveries, letter.reason) == ("workers", 5, REJECTED)
    assert letter.sent_back() == (("a", b"b"), ("barnabas-redriven-from", b"dlq.jobs-0@0"))
    assert Filter(["group=work*", "deliveries=5"])(letter)
    assert not Filter(["reason=*exceeded*"])(letter)
    assert read_letter(ConsumedRecord("dlq.jobs", 0, 1, 0, None, b"written by hand")) is None


def test_a_filter_names_the_fields_that_there_are() -> None:
    with pytest.raises(ValueError, match="deliveries, reason"):
        Filter(["color=red"])


@pytest.fixture(params=["copied", "looked up"])
def queue(cli: Cli, topic: str, request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """A topic, a group that begins with its oldest job, and a topic for what the group gives up."""
    number = next(_numbers)
    group, dead = f"gives-up-{number}", f"dlq.given-up-{number}"
    cli.ok("topics", "create", dead, "-p", "1", "-X", "errors.deadletterqueue.group.enable=true")
    settings = ["share.auto.offset.reset=earliest", f"errors.deadletterqueue.topic.name={dead}"]
    if request.param == "copied":
        settings.append("errors.deadletterqueue.copy.record.enable=true")
    cli.ok("configs", "set", "group", group, *settings)
    return topic, group, dead


def letters(cli: Cli, dead: str, number: int, *options: str) -> list[dict[str, str]]:
    """Dead letters are written by and by."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found: list[dict[str, str]] = cli.ok("queue", "dead", "list", dead, "-o", "json", *options).json
        if len(found) == number:
            return found
        time.sleep(0.05)
    raise AssertionError(f"there should be {number} dead letters, not {found}")


def test_rejected_jobs_are_listed_shown_and_sent_back_once(cli: Cli, queue: tuple[str, str, str]) -> None:
    topic, group, dead = queue
    cli.ok("queue", "publish", topic, "one", "two", "--key", "k", "--header", "a=b")
    for _ in range(2):
        cli.ok("queue", "take", topic, "-g", group, "--then", "reject")
    found = letters(cli, dead, 2)
    assert all(letter["group"] == group and "rejected" in letter["reason"] for letter in found)
    assert f"{topic}-" in cli.ok("queue", "dead", "show", dead, found[0]["letter"]).out
    assert cli("queue", "dead", "show", dead, "0:99").code == 1

    assert len(cli.ok("queue", "dead", "redrive", dead, "--dry-run", "-o", "json").json) == 2
    offset = found[1]["origin"].rsplit("@")[1]
    sent = cli.ok("queue", "dead", "redrive", dead, "--where", f"offset={offset}", "-o", "json").json
    assert (sent["sent"], sent["lost"]) == (1, [])
    assert [letter["letter"] for letter in letters(cli, dead, 1)] == [found[0]["letter"]]
    cli.ok("queue", "dead", "redrive", dead)
    assert letters(cli, dead, 0) == []
    assert len(letters(cli, dead, 2, "--all")) == 2
    back = cli.ok("queue", "take", topic, "-g", group, "-n", "5", "--then", "accept", "-o", "json").json
    back += cli("queue", "take", topic, "-g", group, "--then", "accept", "-o", "json").json or []
    assert {(job["key"], job["value"]) for job in back} == {("k", "one"), ("k", "two")}


def test_a_delayed_job_comes_when_its_time_has_come(cli: Cli, topic: str) -> None:
    group = f"patient-{next(_numbers)}"
    cli.ok("configs", "set", "group", group, "share.auto.offset.reset=earliest")
    cli.ok("configs", "set", "topic", topic, "barnabas.delay.enable=true")
    cli.ok("queue", "publish", topic, "later", "--delay", "2s")
    published = time.monotonic()
    cli.ok("queue", "publish", topic, "now")
    (first,) = cli.ok("queue", "take", topic, "-g", group, "--then", "accept", "-o", "json").json
    assert first["value"] == "now"
    (second,) = cli.ok(
        "queue", "take", topic, "-g", group, "-w", "30s", "--then", "accept", "-o", "json"
    ).json
    assert second["value"] == "later"
    assert time.monotonic() - published >= 1.9
