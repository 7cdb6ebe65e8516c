"""`barnabas consume --where` and `--group`."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.support.cli import Cli

ORDERS = "".join(json.dumps({"country": country, "amount": amount}) + "\n" for country, amount in (
    ("DE", 5), ("AT", 20), ("DE", 15), ("FR", 1),
))  # fmt: skip


def test_only_records_that_match_are_written(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "-p", "0", stdin=ORDERS)
    found = cli.ok("consume", topic, "-s", "beginning", "-e", "--where", "record.value.amount > 10")
    assert [json.loads(line)["amount"] for line in found.out.splitlines()] == [20, 15]
    assert found.err == ""
    one = cli.ok(
        "consume", topic, "-s", "beginning", "-n", "1", "--where", "value.country == 'DE' && offset > 0"
    )
    assert json.loads(one.out)["amount"] == 15


def test_records_without_a_value_for_the_filter_are_counted(cli: Cli, topic: str) -> None:
    cli.ok("produce", topic, "-p", "0", stdin=ORDERS + "no json\n")
    found = cli.ok("consume", topic, "-s", "beginning", "-e", "--where", "record.value.amount > 10")
    assert "1 records could not be evaluated and do not match" in found.err
    assert "not a JSON object" in found.err


def test_a_filter_that_is_none_is_refused_with_its_column(cli: Cli, topic: str) -> None:
    refused = cli("consume", topic, "--where", "record.value.amount >")
    assert refused.code == 2
    assert "column 22: expected an expression, found the end" in refused.err


def test_group_continues_after_written_records(cli: Cli, topic: str, new_name: Callable[[], str]) -> None:
    group = new_name()
    cli.ok("produce", topic, "-p", "0", stdin="1\n2\n3\n")
    arguments = ("consume", topic, "--group", group, "-s", "beginning")
    assert cli.ok(*arguments, "-n", "2").out == "1\n2\n"
    assert cli.ok(*arguments, "-e").out == "3\n"
    assert cli.ok(*arguments, "-e").out == ""
    (described,) = cli.ok("groups", "describe", group, "-o", "json").json
    assert described["lag"] == 0


def test_group_with_a_filter_commits_scanned_offsets(
    cli: Cli, topic: str, new_name: Callable[[], str]
) -> None:
    group = new_name()
    cli.ok("produce", topic, "-p", "1", stdin=ORDERS)
    arguments = ("consume", topic, "-g", group, "-s", "beginning", "--where", "value.country == 'DE'")
    assert json.loads(cli.ok(*arguments, "-n", "1").out)["amount"] == 5
    assert json.loads(cli.ok(*arguments, "-e").out)["amount"] == 15


def test_a_group_and_partitions_exclude_each_other(cli: Cli, topic: str) -> None:
    refused = cli("consume", topic, "--group", "g", "--partition", "0")
    assert refused.code == 2
    assert "a group assigns partitions" in refused.err
