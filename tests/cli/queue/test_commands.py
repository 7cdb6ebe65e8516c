"""`barnabas queue`: publish, take and acknowledge jobs."""

import itertools

import pytest

from tests.support.cli import Cli

_numbers = itertools.count()


@pytest.fixture
def group(cli: Cli) -> str:
    """A share group that begins with the oldest job."""
    name = f"workers-{next(_numbers)}"
    cli.ok("configs", "set", "group", name, "share.auto.offset.reset=earliest")
    return name


def take(cli: Cli, topic: str, group: str, *options: str) -> list[dict[str, object]]:
    taken: list[dict[str, object]] = cli.ok("queue", "take", topic, "-g", group, "-o", "json", *options).json
    return taken


def not_done(cli: Cli, topic: str, group: str) -> int:
    lag: int = cli.ok("queue", "status", topic, "-g", group, "-o", "json").json["lag"]
    return lag


def test_a_job_that_was_accepted_is_not_given_out_again(cli: Cli, topic: str, group: str) -> None:
    cli.ok("queue", "publish", topic, "one", "two", "--key", "k")
    first = take(cli, topic, group, "--then", "accept")
    second = take(cli, topic, group, "--then", "accept")
    assert {first[0]["value"], second[0]["value"]} == {"one", "two"}
    assert first[0]["key"] == "k"
    assert cli("queue", "take", topic, "-g", group, "-w", "100ms").code == 1
    assert not_done(cli, topic, group) == 0


def test_new_group_starts_with_the_oldest_job_by_default(cli: Cli, topic: str) -> None:
    cli.ok("queue", "publish", topic, "old")
    number = next(_numbers)
    assert take(cli, topic, f"new-{number}", "--then", "accept")[0]["value"] == "old"
    cli.ok("configs", "set", "group", f"modern-{number}", "share.auto.offset.reset=latest")
    assert cli("queue", "take", topic, "-g", f"modern-{number}", "-w", "300ms").code == 1


def test_a_job_that_was_given_back_is_delivered_once_more(cli: Cli, topic: str, group: str) -> None:
    cli.ok("queue", "publish", topic, stdin="again\n")
    assert take(cli, topic, group, "--then", "release")[0]["deliveries"] == 1
    assert take(cli, topic, group, "--then", "accept")[0]["deliveries"] == 2


def test_holder_of_the_receipt_acknowledges_a_held_job(cli: Cli, topic: str, group: str) -> None:
    cli.ok("queue", "publish", topic, "held")
    receipt = str(take(cli, topic, group)[0]["receipt"])
    assert cli("queue", "take", topic, "-g", group, "-w", "100ms").code == 1
    cli.ok("queue", "ack", receipt, "--as", "renew")
    assert not_done(cli, topic, group) == 1
    cli.ok("queue", "ack", receipt)
    assert not_done(cli, topic, group) == 0


def test_an_answer_to_a_job_that_was_given_back_does_not_count(cli: Cli, topic: str, group: str) -> None:
    cli.ok("queue", "publish", topic, "held")
    receipt = str(take(cli, topic, group)[0]["receipt"])
    cli.ok("queue", "ack", receipt, "--as", "release")
    ended = cli("queue", "ack", receipt)
    assert ended.code == 1
    assert "the job was released" in ended.err


@pytest.mark.parametrize(("code", "answer"), [(0, "accept"), (65, "reject"), (1, "release")])
def test_the_exit_code_of_a_command_is_the_answer(
    cli: Cli, topic: str, group: str, code: int, answer: str
) -> None:
    cli.ok("queue", "publish", topic, "job")
    (row,) = take(cli, topic, group, "--exec", f"grep -q job && exit {code}")
    assert row["answer"] == answer


def test_a_status_names_the_members_of_the_group(cli: Cli, topic: str, group: str) -> None:
    cli.ok("queue", "publish", topic, "job")
    take(cli, topic, group)
    status = cli.ok("queue", "status", topic, "-g", group, "-o", "json").json
    assert status["state"] == "Stable"
    assert status["members"][0]["client"] == "barnabas-cli"
    assert group in cli.ok("queue", "status", topic, "-g", group).out


def test_usage_errors_are_distinguished_from_failures(cli: Cli, topic: str, group: str) -> None:
    assert cli("queue", "ack", "no receipt").code == 2
    assert cli("queue", "take", topic, "-w", "soon").code == 2
    assert cli("queue", "take", topic, "--then", "accept", "--exec", "true").code == 2
    assert cli("queue", "publish", topic, "x", "--delay", "1s", "--at", "2026-11-15T08:30").code == 2
    assert "barnabas.delay.enable=true" in cli("queue", "publish", topic, "x", "--delay", "1s").err
    assert cli("queue", "status", topic, "-g", "nobody").code == 1
