"""`barnabas queue dead`: list, show and redrive; delayed jobs."""

from __future__ import annotations

import itertools
import time

import pytest

from tests.support.cli import Cli
from tests.support.waiting import eventually

_numbers = itertools.count()


@pytest.fixture(params=["copied", "looked up"])
def queue(cli: Cli, topic: str, request: pytest.FixtureRequest) -> tuple[str, str, str]:
    """A topic, a group that starts with its oldest job, and a dead-letter topic."""
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

    def listed() -> list[dict[str, str]]:
        found: list[dict[str, str]] = cli.ok("queue", "dead", "list", dead, "-o", "json", *options).json
        return found

    return eventually(listed, lambda found: len(found) == number)


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


def test_the_prefix_and_the_creation_of_topics_change_while_the_broker_runs(cli: Cli, topic: str) -> None:
    group, prefix = f"changes-{next(_numbers)}", "errors.deadletterqueue.topic.name.prefix"
    creates, name = "errors.deadletterqueue.auto.create.topics.enable", "errors.deadletterqueue.topic.name"
    cli.ok("configs", "set", "broker", "default", f"{prefix}=letters.", f"{creates}=true")
    try:
        assert "letters." in cli("configs", "set", "group", group, f"{name}=dlq.of-{group}").err
        cli.ok(
            "configs", "set", "group", group, f"{name}=letters.{group}", "share.auto.offset.reset=earliest"
        )
        cli.ok("queue", "publish", topic, "one")
        cli.ok("queue", "take", topic, "-g", group, "--then", "reject")
        assert letters(cli, f"letters.{group}", 1)[0]["group"] == group
    finally:
        cli.ok("configs", "unset", "broker", "default", prefix, creates)
