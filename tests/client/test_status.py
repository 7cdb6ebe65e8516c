"""Statuses in `__barnabas_status`, on Barnabas and on Apache Kafka."""

import asyncio
import time

import msgspec

from barnabas.client.cluster import Client
from barnabas.client.status import ProcessStatus, StatusPart, StatusReporter, forget_status, read_statuses
from tests.client.test_admin import NewName, run
from tests.support.waiting import async_eventually


def test_the_newest_report_of_each_is_read_and_can_be_forgotten(bootstrap: str, new_name: NewName) -> None:
    one, other = new_name(), new_name()

    async def test(client: Client) -> None:
        standing = {
            "agent": ProcessStatus("agent", one, "starting"),
            "mirror": ProcessStatus("mirror", other, "running"),
        }
        reporters = {name: StatusReporter(client, lambda name=name: standing[name]) for name in standing}  # type: ignore[misc]
        for reporter in reporters.values():
            await reporter.report()
        standing["agent"] = ProcessStatus(
            "agent", one, "running", parts=[StatusPart("files", lag=7, counts={"lines": 3})]
        )
        await reporters["agent"].report()
        await reporters["mirror"].report("stopped")

        found = {status.name: status for status in await read_statuses(client)}
        assert (found[one].state, found[one].parts[0].lag, found[one].parts[0].counts) == (
            "running",
            7,
            {"lines": 3},
        )
        assert (found[other].state, found[other].process > 0, found[other].started > 0) == (
            "stopped",
            True,
            True,
        )
        assert one not in {status.name for status in await read_statuses(client, "mirror")}
        await forget_status(client, "agent", one)
        assert one not in {status.name for status in await read_statuses(client)}

    run(bootstrap, test)


def test_a_change_of_state_is_reported_at_once(bootstrap: str, new_name: NewName) -> None:
    name = new_name()

    async def test(client: Client) -> None:
        standing = [ProcessStatus("connector", name, "running")]
        reporting = asyncio.create_task(StatusReporter(client, lambda: standing[0], every=600).run())

        async def becomes(state: str) -> None:
            def has_state(statuses: list[ProcessStatus]) -> bool:
                return [each.state for each in statuses if each.name == name] == [state]

            await async_eventually(lambda: read_statuses(client), has_state)

        await becomes("running")
        standing[0] = ProcessStatus("connector", name, "failed", error="the table is gone: create it")
        await becomes("failed")
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)

    run(bootstrap, test)


def test_silent_process_is_lost_unless_it_announced_its_end() -> None:
    now = time.time()
    old = int((now - 60) * 1000)
    running = ProcessStatus("agent", "a", "running", updated=old, every=5)
    assert running.as_seen(now).state == "lost"
    assert msgspec.structs.replace(running, updated=int(now * 1000)).as_seen(now).state == "running"
    assert msgspec.structs.replace(running, state="stopped").as_seen(now).state == "stopped"
