import asyncio

from tests.groups.streams.test_same_answers_as_kafka import StreamsTalk, commit
from tests.support.builders.streams import sent_topology, subtopology
from tests.support.cli import Cli


async def join(cli: Cli, group: str, topic: str) -> None:
    """One member with all tasks, which has committed something."""
    talk = StreamsTalk(cli.bootstrap)
    await talk.begin(group, topics=())
    await talk.configure(group, streams_initial_rebalance_delay_ms="0")
    joined = await talk.join(group, topology=sent_topology(subtopology("0", topic)))
    await talk.ask(commit(group, "a", joined.member_epoch, topic), 9)
    talk.close()


async def leave(cli: Cli, group: str) -> None:
    talk = StreamsTalk(cli.bootstrap)
    await talk.open()
    await talk.beat(group, "a", -1)
    talk.close()


def test_streams_group_is_described_with_its_tasks_and_rebalance_reasons(cli: Cli, topic: str) -> None:
    group = f"streams-of-{topic}"
    asyncio.run(join(cli, group, topic))
    (described,) = cli.ok("groups", "describe", group, "-o", "json").json
    assert [described[name] for name in ("state", "type", "assignor")] == ["Stable", "streams", "sticky"]
    assert described["members"][0]["partitions"] == [f"{topic}-0", f"{topic}-1"]
    assert [row["committed"] for row in described["offsets"]] == [7, None]
    asyncio.run(leave(cli, group))
    joined, left = cli.ok("groups", "history", group, "-o", "json").json
    assert joined["why"] == "a joined from /127.0.0.1"
    assert left["why"] == "a is out: it left"
    cli.ok("groups", "delete", group, "--yes")
