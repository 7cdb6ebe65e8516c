import asyncio

import pytest

from barnabas.cluster.peers import LocalPeers
from barnabas.common.errors import ErrorCode, KafkaError


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
