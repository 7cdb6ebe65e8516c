"""Asyncio client for Kafka brokers, used by the command line, mirrors, pipelines and services.

`Client` routes requests to brokers; `Producer`, `Consumer` and `ShareConsumer` build on it. `parse_security` reads TLS
and SASL settings by Kafka's names; `SchemaClient` talks to a schema registry.

async with Client("127.0.0.1:9092") as client:
    async with Producer(client) as producer:
        await producer.send("events", b"hello")
"""
