"""One Apache Kafka for all tests of the sink: it takes seconds to start."""

from collections.abc import Iterator

import pytest

from tests.support.kafka.broker import ApacheKafka


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    settings = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "5",
        "offsets.topic.replication.factor": "1",
    }
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), heap="512m", settings=settings) as running:
        yield running
