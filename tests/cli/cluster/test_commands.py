from barnabas.cluster.features import METADATA_VERSION, NEWEST_LEVEL, level_of
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli


def test_the_cluster_is_described(cli: Cli, topic: str) -> None:
    described = cli.ok("cluster", "describe", "-o", "json").json
    (broker,) = described["brokers"]
    assert described["controller_id"] == broker["id"] == 1
    assert broker["address"] == cli.bootstrap
    assert broker["partitions"] >= 2
    assert all(folder["online"] for folder in broker["log_dirs"])
    assert "controller" in cli.ok("cluster", "describe").out


def test_the_level_of_the_metadata_is_raised_once(cli: Cli, broker: EmbeddedBroker) -> None:
    done = cli.ok("cluster", "upgrade", "-o", "json").json
    assert done == {"feature": METADATA_VERSION, "level": NEWEST_LEVEL}
    assert level_of(broker.broker.image) == NEWEST_LEVEL
    assert "from now on" in cli.ok("cluster", "upgrade").err


def test_the_level_of_a_feature_is_raised(cli: Cli) -> None:
    done = cli.ok("cluster", "upgrade", "--feature", "share.version=2", "-o", "json").json
    assert done == {"feature": "share.version", "level": 2}
    assert "such as share.version=2" in cli("cluster", "upgrade", "--feature", "share.version").err
    assert cli("cluster", "upgrade", "--feature", "share.version=99").code == 1
