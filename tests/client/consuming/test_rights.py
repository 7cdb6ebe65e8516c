"""A group member needs READ on the group and its topics."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.consuming.consumer import GroupConsumer
from barnabas.client.fetching import FetchSettings
from barnabas.client.offsets import Start
from barnabas.client.security.parsing import parse_security
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.testing import EmbeddedBroker
from tests.support.sasl import login, sasl_settings


def test_joining_requires_read_on_the_group() -> None:
    settings = sasl_settings(
        **{
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
    )

    async def main(plain: str, guarded: str) -> None:
        async with Client(plain) as client:
            await admin.create_topic(client, "orders", partitions=1)
        async with Client(guarded, security=parse_security(login("PLAIN"))) as client:
            with pytest.raises(KafkaError) as refused:
                await GroupConsumer(client, "group", ["orders"], Start("end"), FetchSettings()).open()
            assert refused.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED

    with EmbeddedBroker(settings=settings) as broker:
        ports = {one.name: one.port for one in broker.broker.listeners}
        asyncio.run(main(f"127.0.0.1:{ports['PLAINTEXT']}", f"127.0.0.1:{ports['SASL_PLAINTEXT']}"))
