"""Metrics of mirrors: lag and failed partitions."""

from __future__ import annotations

from barnabas.protocol.messages.mirror import AlteredMirrorPartition, MirrorAction, MirrorState
from barnabas.testing import EmbeddedBroker
from tests.support.mirrors.target import TOPIC, Target, batch


def test_lag_and_failures_are_measured() -> None:
    with EmbeddedBroker() as broker, Target(broker.port) as target:
        target.create(partitions=2)
        target.append(batch(0, 3), source_high_watermark=10)
        failed = AlteredMirrorPartition(index=1, state=MirrorState.FAILED, reason="the source went back")
        target.alter(MirrorAction.NONE, partitions=[failed])
        found = broker.broker.metrics.snapshot()
        assert found[f"barnabas_mirror_led_lag_offsets{{topic={TOPIC},partition=0}}"] == 7
        assert found["barnabas_mirror_failed_partitions"] == 1
        assert found["barnabas_mirror_led_partitions{state=ACTIVE}"] == 1
        assert found["barnabas_mirror_led_partitions{state=FAILED}"] == 1
        target.alter(MirrorAction.FAIL, reason="deleted at the source")
        assert broker.broker.metrics.snapshot()["barnabas_mirror_failed_partitions"] == 2
