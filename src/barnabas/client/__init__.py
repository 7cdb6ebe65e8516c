"""A thin asyncio client on the protocol layer: for the command line, mirrors, pipelines and replica fetchers.

async with Client("127.0.0.1:9092") as client:
    async with Producer(client) as producer:
        await producer.send("events", b"hello")
"""
