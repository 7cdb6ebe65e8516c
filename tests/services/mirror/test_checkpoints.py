"""MirrorMaker 2 checkpoints, read by its client."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.client.groups import commit_offsets
from barnabas.common.types import TopicPartition
from barnabas.services.mirror.groups import Checkpoint, encode_checkpoint
from barnabas.testing import EmbeddedBroker
from benchmarks.subjects.mirrors import MIRROR_MAKER_LIBS, reason_mirror_maker_is_missing
from tests.services.mirror.test_following import settings
from tests.services.mirror.test_producing import Reader, produce
from tests.support.mirrors.process import MirrorThread, ask, wait_for

PROGRAM = Path(__file__).parent / "java" / "TranslateOffsets.java"


def test_a_checkpoint_has_the_bytes_of_mirror_maker() -> None:
    key, value = encode_checkpoint(Checkpoint("g", TopicPartition("t", 3), 7, 9, "m"))
    assert key == b"\x00\x01g\x00\x01t\x00\x00\x00\x03"
    assert value == b"\x00\x00" + (7).to_bytes(8, "big") + (9).to_bytes(8, "big") + b"\x00\x01m"


@pytest.mark.java
def test_mirror_makers_client_translates_offsets_of_a_group(
    source: EmbeddedBroker, target: EmbeddedBroker, new_name: Callable[[], str]
) -> None:
    if reason := reason_mirror_maker_is_missing():
        pytest.skip(reason)
    name, source_servers, target_servers = new_name(), source.bootstrap_servers, target.bootstrap_servers
    source.create_topic(name, partitions=1)
    produce(source_servers, name, [str(n) for n in range(30)])
    ask(source_servers, lambda client: commit_offsets(client, f"g-{name}", {TopicPartition(name, 0): 20}))
    with MirrorThread(source_servers, target_servers, settings(name, merge=True, groups=f"g-{name}")):
        command = ["java", "-cp", f"{MIRROR_MAKER_LIBS}/*", str(PROGRAM), target_servers, "src", f"g-{name}"]

        def translated() -> str:
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout

        place, _, offset = wait_for(translated).strip().partition("=")
    assert place == f"{name}-0"
    reader = Reader(target_servers, name)
    reader.read(30)
    reader.close()
    assert [value for at, value, _ in reader.seen if at == int(offset)] == ["20"]
