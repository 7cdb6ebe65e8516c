"""Positions of a connector in its checkpoint, and changing them."""

import json
from pathlib import Path

import pytest

from barnabas.common.types import TopicPartition
from barnabas.connect.control_files import ControlFiles, LocalFolder
from barnabas.connect.positions import Positions, partition_and_offset, rows_of
from barnabas.spark.errors import PipelineError

ENTRY = 'v1\n{"batchWatermarkMs":0}\n{"orders":{"0":5,"1":7},"#ids":{"orders":"abc"}}'


def checkpoint(folder: Path, *, begun: int = 3, done: int = 3) -> Positions:
    state = LocalFolder(folder)
    for number in range(begun + 1):
        state.below("checkpoints/rows/offsets").write_text(str(number), ENTRY)
    for number in range(done + 1):
        state.below("checkpoints/rows/commits").write_text(str(number), "v1")
    return Positions(state, "c")


def test_offsets_are_shown_and_set(tmp_path: Path) -> None:
    positions = checkpoint(tmp_path)
    (tmp_path / "checkpoints/rows/offsets/.3.crc").write_bytes(b"of the old text")
    assert rows_of(positions.read()) == [
        {"source": "orders", "partition": 0, "offset": 5},
        {"source": "orders", "partition": 1, "offset": 7},
    ]
    positions.set({TopicPartition("orders", 1): 2})
    assert positions.read() == [{"orders": {"0": 5, "1": 2}, "#ids": {"orders": "abc"}}]
    entry = (tmp_path / "checkpoints/rows/offsets/3").read_text().splitlines()
    assert entry[:2] == ENTRY.splitlines()[:2]
    assert not (tmp_path / "checkpoints/rows/offsets/.3.crc").exists()


def test_offsets_are_not_set_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="Batch 4 of c is incomplete"):
        checkpoint(tmp_path, begun=4).set({TopicPartition("orders", 1): 2})
    with pytest.raises(PipelineError, match="has not completed a batch yet"):
        Positions(LocalFolder(tmp_path / "nothing"), "c").set({TopicPartition("orders", 1): 2})
    with pytest.raises(PipelineError, match="does not read carts-1"):
        checkpoint(tmp_path / "other").set({TopicPartition("carts", 1): 2})


def test_text_that_is_not_a_topic_is_shown_unchanged() -> None:
    assert rows_of([{"logOffset": 4}])[0]["source"] == json.dumps({"logOffset": 4})


@pytest.mark.parametrize("text", ["orders", "orders:0", "orders=1", ":0=1", "orders:a=1", "orders:0=-1"])
def test_invalid_position_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid TOPIC:PARTITION=OFFSET"):
        partition_and_offset(text)


def test_orders_are_files_of_the_storage(tmp_path: Path) -> None:
    orders = ControlFiles(LocalFolder(tmp_path))
    assert not orders.is_paused()
    assert not orders.resume()
    orders.pause()
    assert orders.is_paused()
    assert orders.resume()
    orders.restart()
    assert orders.take_restart()
    assert not orders.take_restart()
