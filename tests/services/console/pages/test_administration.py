"""Topics, settings, brokers, transactions and dead letters, on Barnabas and Apache Kafka, compared with Kafka's tools.

All in one module, so that Apache Kafka starts once.
"""

from __future__ import annotations

import asyncio
import re
import urllib.parse

import confluent_kafka
import pytest

from barnabas.client.cluster import Client
from barnabas.client.connection import BrokerConnection
from barnabas.client.share.dead_letters import GROUP_PREFIX
from tests.clients.test_transactions_wire import V1_PRODUCE, Wire
from tests.services.console.pages.administration import TIMEOUT, created, look_anew, new_name, write
from tests.services.console.web import RunningConsole, Web
from tests.support.kafka.tools import run_tool
from tests.support.waiting import eventually


def tool(bootstrap: str, name: str, *arguments: str) -> str:
    return run_tool(name, "--bootstrap-server", bootstrap, *arguments).check().stdout


def own_setting(web: Web, topic: str, name: str, wanted: str | None) -> str | None:
    """The expected value: Apache Kafka's broker applies a change a moment later."""

    def look() -> str | None:
        found: str | None = web.api(f"/topics/{topic}").json["changed"].get(name)
        return found

    return eventually(look, lambda found: found == wanted)


# -- topics ---------------------------------------------------------------------------------------------


def test_a_topic_is_checked_created_grown_emptied_and_deleted(either: Web, bootstrap: str) -> None:
    name = new_name("life")
    checked = either.get("/create-topic", topic=name, partitions=2, settings="retention.ms=5000")
    assert "would create" in checked.text
    assert either.api(f"/topics/{name}").status == 404

    made = either.post(
        "/create-topic", topic=name, partitions=2, replication_factor="", settings="retention.ms=5000"
    )
    assert made.status == 303
    assert f"/topics/{name}?message=" in made.headers["location"]
    page = eventually(lambda: either.api(f"/topics/{name}"), lambda answer: answer.status == 200).json
    assert (page["partitions"], page["replication_factor"]) == (2, 1)
    assert page["changed"]["retention.ms"] == "5000"

    assert either.change(f"/topics/{name}/grow", partitions=3, seen=1).status == 409
    assert either.change(f"/topics/{name}/grow", partitions=2).status == 400
    assert either.change(f"/topics/{name}/grow", partitions=3, seen=2).status == 200
    rows = eventually(
        lambda: either.api(f"/topics/{name}/partitions").json["rows"], lambda rows: len(rows) == 3
    )
    assert [row["flags"] for row in rows] == [[], [], []]

    write(bootstrap, name, 20)
    refused = either.change(f"/topics/{name}/purge", confirm=name, partition=0, before=21)
    assert refused.status == 400
    assert "offsets 0 to 20" in refused.json["error"]
    assert either.change(f"/topics/{name}/purge", confirm="other").status == 400
    assert either.change(f"/topics/{name}/purge", confirm=name, partition=0, before=5).json["starts"] == {
        "0": 5
    }
    rows = either.api(f"/topics/{name}/partitions").json["rows"]
    assert [(row["start"], row["end"]) for row in rows] == [(5, 20), (0, 0), (0, 0)]
    assert either.api(f"/topics/{name}").json["records"] == 15
    assert either.change(f"/topics/{name}/purge", confirm=name).json["starts"]["0"] == 20

    assert "type" in either.change(f"/topics/{name}/delete", confirm="").json["error"]
    assert either.change(f"/topics/{name}/delete", confirm=name).status == 200
    assert eventually(lambda: either.api(f"/topics/{name}").status, lambda status: status == 404) == 404
    assert name not in tool(bootstrap, "org.apache.kafka.tools.TopicCommand", "--list").splitlines()


def test_partitions_equal_the_output_of_kafka_topics(either: Web, bootstrap: str) -> None:
    name = created(either, "where", partitions=2)
    write(bootstrap, name, 7, partition=1)
    rows = either.api(f"/topics/{name}/partitions").json["rows"]
    output = tool(bootstrap, "org.apache.kafka.tools.TopicCommand", "--describe", "--topic", name)
    expected = re.findall(r"Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\S+)\s+Isr: (\S+)", output)
    assert expected == [
        tuple(map(str, (row["partition"], row["leader"], *row["replicas"], *row["isr"]))) for row in rows
    ]
    assert (rows[1]["end"], rows[1]["producers"]) == (7, 1)
    assert rows[1]["bytes"] > 0
    assert either.get(f"/topics/{name}/partitions").status == 200


def test_invalid_topic_name_is_rejected_with_a_message(either: Web) -> None:
    assert either.change("/create-topic", topic="a b").status == 400
    assert either.change("/create-topic", topic="").json["field"] == "topic"
    refused = either.change("/create-topic", topic=new_name("odd"), settings="retention.ms=often")
    assert refused.status == 400
    assert "retention.ms" in refused.json["error"]
    assert either.get("/topics/" + urllib.parse.quote("<script>x", safe="")).status in (400, 404)


def test_many_topics_are_read_then_changed_in_one_request(
    either: Web, either_console: RunningConsole, bootstrap: str
) -> None:
    names = [created(either, "many", 1) for _ in range(3)]
    write(bootstrap, names[0], 4)
    look_anew(either_console)
    assert set(names) <= set(either.api("/many-topics", q="MANY").json["choices"])
    assert names[1] in either.get("/many-topics", q="many").text
    page = either.api("/many-topics", topics=names, do="set", changes="retention.ms=7000").json
    assert [row["change"].split(" → ")[1] for row in page["rows"]] == ["7000"] * 3
    assert page["confirm"] == "set 3 topics"
    assert (
        either.change(
            "/many-topics", topics=names, do="set", changes="retention.ms=7000", confirm="yes"
        ).status
        == 400
    )
    done = either.change(
        "/many-topics", topics=names, do="set", changes="retention.ms=7000", confirm="set 3 topics"
    ).json
    assert (sorted(done["done"]), done["failed"]) == (sorted(names), {})  # many-10 precedes many-9
    assert own_setting(either, names[2], "retention.ms", "7000") == "7000"

    assert "4" in either.get("/many-topics", topics=names, do="purge").text
    assert (
        either.change("/many-topics", topics=names, do="purge", confirm="purge 3 topics").json["failed"] == {}
    )
    assert either.api(f"/topics/{names[0]}").json["records"] == 0
    assert either.post("/many-topics", topics=names, do="delete", confirm="delete 3 topics").status == 303
    removed = eventually(lambda: either.api(f"/topics/{names[1]}").status, lambda status: status == 404)
    assert removed == 404


# -- settings -------------------------------------------------------------------------------------------


def kafka_configs(bootstrap: str, topic: str) -> dict[str, str]:
    output = tool(
        bootstrap,
        "kafka.admin.ConfigCommand",
        "--describe",
        "--entity-type",
        "topics",
        "--entity-name",
        topic,
        "--all",
    )
    return dict(re.findall(r"^\s+([\w.]+)=(\S*) sensitive", output, re.MULTILINE))


def test_settings_equal_the_output_of_kafka_configs_with_the_default_of_a_change(
    either: Web, bootstrap: str
) -> None:
    name = created(either, "config", 1, "max.message.bytes=2000")
    page = either.api(f"/topics/{name}/config").json
    ours = {setting["name"]: setting["value"] for setting in page["settings"]}
    assert ours == kafka_configs(bootstrap, name)
    changed = {setting["name"]: setting for setting in page["settings"]}["max.message.bytes"]
    assert (changed["default"], changed["is_set"], changed["source"]) == ("1048588", True, "topic")
    assert changed["documentation"]
    assert "<" not in changed["documentation"]
    only = either.api(f"/topics/{name}/config", q="MESSAGE", changed="true").json
    assert [setting["name"] for setting in only["settings"]] == ["max.message.bytes"]


def test_a_change_of_settings_is_previewed_then_applied_and_a_stale_form_is_refused(
    either: Web, bootstrap: str
) -> None:
    name = created(either, "edit", 1, "retention.ms=1000")
    page = either.api(f"/topics/{name}/config", changes="retention.ms=2000\ncleanup.policy=compact").json
    assert [(each["name"], each["before"], each["after"]) for each in page["preview"]] == [
        ("retention.ms", "1000", "2000"),
        ("cleanup.policy", "delete", "compact"),
    ]
    assert either.api(f"/topics/{name}").json["changed"]["retention.ms"] == "1000"
    assert "Apply" in either.get(f"/topics/{name}/config", changes="retention.ms=2000").text

    first = either.post(f"/topics/{name}/config", changes="retention.ms=2000", seen=page["seen"])
    assert first.status == 303
    assert own_setting(either, name, "retention.ms", "2000") == "2000"
    assert kafka_configs(bootstrap, name)["retention.ms"] == "2000"
    second = either.change(f"/topics/{name}/config", changes="retention.ms=3000", seen=page["seen"])
    assert second.status == 409
    assert "retention.ms was 1000 and is 2000 now" in second.json["error"]
    assert either.change(f"/topics/{name}/config", changes="retention.ms").status == 200
    assert own_setting(either, name, "retention.ms", None) is None


@pytest.mark.parametrize("changes", ["retention.ms=often", "no.such.setting=1"])
def test_preview_shows_what_the_broker_would_reject(either: Web, changes: str) -> None:
    name = created(either, "wrong", 1)
    assert either.api(f"/topics/{name}/config", changes=changes).status == 400
    assert either.change(f"/topics/{name}/config", changes=changes).status == 400


# -- brokers --------------------------------------------------------------------------------------------


def test_brokers_have_log_dirs_and_settings_that_can_change_while_they_run(
    either: Web, either_console: RunningConsole
) -> None:
    created(either, "held", 2)
    look_anew(either_console)
    (broker,) = either.api("/brokers").json["brokers"]
    assert broker["up"]
    assert broker["controller"]
    number = broker["id"]
    page = either.api(f"/brokers/{number}").json
    assert [folder["online"] for folder in page["log_dirs"]] == [True]
    assert broker["replicas"] == broker["leaders"] == page["log_dirs"][0]["replicas"] >= 2
    assert broker["bytes"] is not None
    for path in ("/brokers", f"/brokers/{number}", f"/brokers/{number}/config", "/brokers/default/config"):
        assert either.get(path).status == 200
    assert either.api("/brokers/77").status == 404
    assert either.api("/brokers/x/config").status == 400

    preview = either.api(f"/brokers/{number}/config", changes="log.cleaner.threads=2").json["preview"]
    assert [each["after"] for each in preview] == ["2"]
    refused = either.api(f"/brokers/{number}/config", changes="log.dirs=/x")
    assert (refused.status, "before it starts" in refused.json["error"]) == (400, True)
    changed = either.change("/brokers/default/config", changes="message.max.bytes=2000000")
    assert changed.status == 200, changed.text

    def seen() -> tuple[str, bool]:
        settings = either.api(f"/brokers/{number}/config", q="message.max.bytes").json["settings"]
        found = {each["name"]: each for each in settings}["message.max.bytes"]
        return found["value"], found["is_set"]

    assert eventually(seen, lambda found: found[0] == "2000000") == ("2000000", False)
    assert either.change("/brokers/default/config", changes="message.max.bytes").status == 200


def test_one_broker_has_nothing_to_move_and_cannot_be_emptied(either: Web) -> None:
    page = either.api("/moves", plan="balance").json
    assert (page["under_way"], page["plan"]["count"]) == ([], 0)
    (broker,) = page["brokers"]
    created(either, "stays", 1)
    problem = either.api("/moves", plan="drain", broker=broker["id"]).json["problem"]
    assert "no other broker" in problem
    assert either.get("/moves", plan="drain", broker=broker["id"]).status == 200
    assert either.change("/moves/start", plan="drain", broker=broker["id"]).status == 400
    assert either.api("/moves", plan="drain").json["field"] == "broker"
    assert either.change("/moves/cancel").json["message"].startswith("0 moves")
    assert either.change("/moves/elect").status == 200


# -- transactions ---------------------------------------------------------------------------------------


def open_transaction(bootstrap: str, topic: str, name: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(TIMEOUT) == 0
    return producer


def test_an_open_transaction_is_shown_as_kafka_transactions_does_and_aborted(
    either: Web, bootstrap: str
) -> None:
    topic, name = created(either, "tx", 1), new_name("payments/1")
    producer = open_transaction(bootstrap, topic, name)
    path = f"/transactions/{urllib.parse.quote(name, safe='')}"
    rows = {row["id"]: row for row in either.api("/transactions", q="PAYMENTS").json["rows"]}
    assert rows[name]["state"] == "Ongoing"
    assert rows[name]["open_seconds"] >= 0
    assert not rows[name]["overdue"]
    assert either.api("/transactions", longer=3600).json["rows"] == []
    output = tool(
        bootstrap, "org.apache.kafka.tools.TransactionsCommand", "describe", "--transactional-id", name
    )
    page = either.api(path).json
    assert page["partitions"] == [f"{topic}-0"]
    assert f"{topic}-0" in output
    assert str(page["row"]["producer_id"]) in output
    (row,) = either.api(f"/topics/{topic}/partitions").json["rows"]
    assert row["open_transactions"] == 1
    assert either.get("/transactions", hanging="true", topic=topic, minutes=0).status == 200
    assert either.api("/transactions", hanging="true", topic=topic, minutes=0).json["hanging"] == []

    assert either.change(path + "/abort", confirm="payments").status == 400
    assert either.change(path + "/abort", confirm=name).status == 200
    ended = ("CompleteAbort", "Empty")
    assert eventually(lambda: either.api(path).json["row"]["state"], lambda state: state in ended) in ended
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(TIMEOUT)
    assert either.change("/transactions/nobody/abort", confirm="nobody").status == 404


async def hang(bootstrap: str, topic: str) -> None:
    """A batch that opens a transaction which no coordinator knows of: it hangs since 1970."""
    host, port = bootstrap.split(":")
    connection = await BrokerConnection.connect(host, int(port), "wire")
    wire = Wire(connection, topic, new_name("forgotten"))
    await wire.find(wire.name, 1)
    await wire.init()
    assert await wire.produce(V1_PRODUCE, timestamp=1) == 0
    connection.close()


def test_a_hanging_transaction_is_found_as_kafka_transactions_finds_it_and_aborted(
    either: Web, bootstrap: str
) -> None:
    topic = created(either, "hangs", 1)
    asyncio.run(hang(bootstrap, topic))
    output = tool(
        bootstrap,
        "org.apache.kafka.tools.TransactionsCommand",
        "find-hanging",
        "--topic",
        topic,
        "--partition",
        "0",
    )
    (row,) = either.api("/transactions", hanging="true", topic=topic).json["hanging"]
    place = (row["topic"], row["partition"], row["producer_id"], row["producer_epoch"])
    assert re.search(r"\s+".join(map(str, place)), output)
    assert topic in [each["topic"] for each in either.api("/transactions", hanging="true").json["hanging"]]

    wanted = {"partition": 0, "start_offset": row["start_offset"]}
    assert either.change(f"/topics/{topic}/abort-hanging", **wanted, confirm="yes").status == 400
    assert (
        either.change(f"/topics/{topic}/abort-hanging", **wanted, confirm=str(row["start_offset"])).status
        == 200
    )
    assert either.api("/transactions", hanging="true", topic=topic).json["hanging"] == []


# -- dead letters ---------------------------------------------------------------------------------------


def test_dead_letters_are_counted_by_reason_and_sent_back_after_a_dry_run(
    either: Web, either_console: RunningConsole, bootstrap: str
) -> None:
    origin, dead = created(either, "jobs", 1), created(either, "dlq.jobs", 1)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        headers: dict[str, str | bytes | None] = {
            "__connect.errors.topic": origin,
            "__connect.errors.partition": "0",
            "__connect.errors.offset": str(number),
            "__connect.errors.connector.name": "jdbc",
            "__connect.errors.exception.message": "<b>no such column" if number < 3 else "gone",
        }
        producer.produce(dead, b"v%d" % number, b"k", headers=headers)
    assert producer.flush(TIMEOUT) == 0

    look_anew(either_console)
    assert {row["topic"]: row["records"] for row in either.api("/dead").json["topics"]}[dead] == 5
    page = either.api(f"/dead/{dead}").json
    assert [(each["reason"], each["count"]) for each in page["reasons"]] == [
        ("<b>no such column", 3),
        ("gone", 2),
    ]
    assert (page["targets"], page["count"], page["is_complete"]) == ({origin: 5}, 5, True)
    shown = either.get(f"/dead/{dead}", where="reason=gone", preview="true").text
    assert "Send back 2 letters" in shown
    assert "<b>no" not in either.get(f"/dead/{dead}").text

    assert either.change(f"/dead/{dead}/redrive", where=["reason=gone"], seen=3).status == 409
    done = either.change(f"/dead/{dead}/redrive", where=["reason=gone"], seen=2).json
    assert (done["sent"], done["lost"]) == (2, [])
    records = either.api(f"/topics/{origin}").json["records"]
    assert records in (2, 3)  # offsets: the marker of the transaction is one
    assert either.api(f"/dead/{dead}").json["count"] == 3
    assert either.api(f"/dead/{dead}", all="true").json["count"] == 5
    assert either.change(f"/dead/{dead}/redrive", to=origin).json["sent"] == 3
    assert either.api(f"/dead/{dead}").json["count"] == 0
    assert either.api(f"/dead/{dead}", where="colour=red").status == 400
    written_by_hand_stay_without_a_target(either, bootstrap, dead, origin)
    output = tool(
        bootstrap, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe", "--group",
        GROUP_PREFIX + dead,
    )  # fmt: skip
    assert re.search(rf"{re.escape(dead)}\s+0\s+7\s+7\s+0", output)


def written_by_hand_stay_without_a_target(either: Web, bootstrap: str, dead: str, origin: str) -> None:
    write(bootstrap, dead, 2)
    page = either.api(f"/dead/{dead}").json
    assert [(each["kind"], each["reason"], each["count"]) for each in page["reasons"]] == [("other", "", 2)]
    assert [row["kind"] for row in page["rows"]] == ["other", "other"]
    assert "of another kind" in either.get(f"/dead/{dead}").text
    preview = either.api(f"/dead/{dead}", preview="true").json
    assert (preview["count"], preview["targets"], preview["left_out"]) == (0, {}, 2)
    assert either.change(f"/dead/{dead}/redrive").json["sent"] == 0
    assert either.api(f"/dead/{dead}", preview="true", to=origin).json["targets"] == {origin: 2}
    assert either.change(f"/dead/{dead}/redrive", to=origin).json["sent"] == 2


# -- what only some brokers have ------------------------------------------------------------------------


def test_broker_without_tiered_storage_and_mirrors_reports_it(either: Web) -> None:
    assert either.api("/tiering").json["topics"] == []
    assert "No topic that you may see is tiered" in either.get("/tiering").text
    assert either.api("/mirrors").json == {"links": [], "topics": [], "may_alter": True, "note": ""}
    assert "Nothing is mirrored" in either.get("/mirrors").text
    name = created(either, "plain", 1)
    assert either.change(f"/mirrors/{name}/pause").status == 404


def test_groups_that_read_a_topic_are_shown_with_their_lag(
    either: Web, either_console: RunningConsole, bootstrap: str
) -> None:
    topic, group = created(either, "read", 1), new_name("readers")
    write(bootstrap, topic, 9)

    async def commit() -> None:
        from barnabas.client.groups import commit_offsets
        from barnabas.common.types import TopicPartition

        async with Client(bootstrap) as client:
            await commit_offsets(client, group, {TopicPartition(topic, 0): 4})

    either_console.run(commit())
    look_anew(either_console)
    page = either.api(f"/topics/{topic}/groups").json
    assert [(each["group"], each["lag"], each["partitions"]) for each in page["readers"]] == [(group, 5, 1)]
    assert group in either.get(f"/topics/{topic}/groups").text
