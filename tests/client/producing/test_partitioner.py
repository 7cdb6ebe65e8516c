import pytest
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from barnabas.client.producing.record_accumulator import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_those_of_kafkas_java_client(key: bytes, java_hash: int) -> None:
    assert murmur2(key) == java_hash & 0xFFFFFFFF


@given(st.binary(max_size=64))
def test_hashes_are_those_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@given(st.binary(min_size=1, max_size=64), st.integers(1, 1000))
def test_key_maps_to_the_same_partition_as_in_aiokafka(key: bytes, count: int) -> None:
    partitions = list(range(count))
    assert partition_for_key(key, count) == DefaultPartitioner()(key, partitions, partitions)
