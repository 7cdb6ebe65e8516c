"""What a test does where there is no ZooKeeper to be had."""

import pytest

from barnabas.cluster.zookeeper.process import NoZooKeeperError, find_jars, find_java
from tests.kafka_jars import in_ci


def require_zookeeper() -> None:
    """Skip where there is no Java or no jars; in CI that is a failure."""
    try:
        find_java()
        find_jars()
    except NoZooKeeperError as missing:
        if in_ci():
            pytest.fail(f"CI must not skip this: {missing}", pytrace=False)
        pytest.skip(str(missing))
