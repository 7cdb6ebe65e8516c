"""Users of a search process get equal shares, however many searches each of them runs."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from barnabas.services.console.scanning.worker.turns import FairTurns


def test_steps_alternate_between_users_and_not_between_searches() -> None:
    async def work() -> Counter[str]:
        iterations, order = FairTurns(1), list[str]()

        async def search(user: str) -> None:
            for _ in range(20):
                async with iterations.turn(user):
                    order.append(user)
                    await asyncio.sleep(0)

        await asyncio.gather(*(search(user) for user in ["greedy"] * 9 + ["modest"]))
        return Counter(order[:40])

    assert asyncio.run(work())["modest"] >= 19


def test_a_user_leaves_room_for_another_one() -> None:
    async def work() -> tuple[int, bool]:
        iterations, entered = FairTurns(8, 6), Counter[str]()
        end = asyncio.Event()

        async def search(user: str) -> None:
            async with iterations.turn(user):
                entered[user] += 1
                await end.wait()

        tasks = [asyncio.create_task(search(user)) for user in ["greedy"] * 20 + ["modest"]]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        held, is_in = entered["greedy"], entered["modest"] == 1
        end.set()
        await asyncio.gather(*tasks)
        assert entered == Counter(greedy=20, modest=1)
        return held, is_in

    assert asyncio.run(work()) == (6, True)


def test_slots_of_cancelled_searches_are_released() -> None:
    async def work() -> None:
        iterations = FairTurns(1)

        async def search() -> None:
            async with iterations.turn("a"):
                await asyncio.sleep(60)

        tasks = [asyncio.create_task(search()) for _ in range(3)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(5), iterations.turn("b"):
            pass

    asyncio.run(work())
