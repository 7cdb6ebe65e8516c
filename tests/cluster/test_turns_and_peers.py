import asyncio
from functools import partial

import pytest

from barnabas.cluster.peers import LocalPeers
from barnabas.cluster.turns import Turns
from barnabas.errors import ErrorCode, KafkaError


def test_steps_run_one_after_the_other_in_the_order_they_were_asked_for() -> None:
    story: list[str] = []

    async def main() -> None:
        turns = Turns()

        async def step(name: str) -> None:
            story.append(f"{name} begins")
            await asyncio.sleep(0)
            story.append(f"{name} ends")

        await asyncio.gather(*(turns.run(partial(step, name)) for name in "ab"))

    asyncio.run(main())
    assert story == ["a begins", "a ends", "b begins", "b ends"]


def test_a_step_ends_even_if_whoever_asked_for_it_has_gone() -> None:
    async def main() -> None:
        turns = Turns()
        begun, done = asyncio.Event(), asyncio.Event()

        async def step() -> None:
            begun.set()
            await asyncio.sleep(0)
            done.set()

        caller = asyncio.ensure_future(turns.run(step))
        await begun.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await asyncio.wait_for(done.wait(), 5)

    asyncio.run(main())


def test_a_broker_alone_answers_itself_and_knows_no_other() -> None:
    async def answer(request: str) -> str:
        return request.upper()

    async def main() -> None:
        peers = LocalPeers(1, answer)
        assert await peers.send(1, "hello") == "HELLO"
        with pytest.raises(KafkaError) as caught:
            await peers.send(2, "hello")
        assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE

    asyncio.run(main())
