"""kcat: list, produce, consume, query, groups."""

from __future__ import annotations

import json
import subprocess

import pytest

from barnabas.testing import EmbeddedBroker
from tests.support.programs import find


def kcat(broker: EmbeddedBroker, *args: str, text: str = "") -> str:
    (program,) = find("kcat")
    command = [program, "-b", broker.bootstrap_servers, *args]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(count: int) -> str:
    return "".join(f"key{number}:value{number}\n" for number in range(count))


def test_it_lists_brokers_and_topics(broker: EmbeddedBroker, topic: str) -> None:
    listed = json.loads(kcat(broker, "-L", "-J", "-t", topic))
    assert listed["brokers"] == [{"id": 1, "name": broker.bootstrap_servers}]
    (shown,) = listed["topics"]
    assert (shown["topic"], shown["partitions"][0]["leader"]) == (topic, 1)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_round_trips(broker: EmbeddedBroker, topic: str, codec: str) -> None:
    kcat(broker, "-P", "-t", topic, "-K", ":", "-z", codec, text=lines(500))
    shown = kcat(broker, "-C", "-t", topic, "-e", "-q", "-f", "%o %k %s\n").splitlines()
    assert shown == [f"{number} key{number} value{number}" for number in range(500)]


def test_reading_starts_at_the_given_position(broker: EmbeddedBroker, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, "-K", ":", text=lines(10))
    assert kcat(broker, "-C", "-t", topic, "-o", "-3", "-e", "-q").split() == ["value7", "value8", "value9"]
    assert kcat(broker, "-C", "-t", topic, "-o", "s@0", "-c", "1", "-q").split() == ["value0"]
    assert kcat(broker, "-Q", "-t", f"{topic}:0:-1").split()[-1] == "10"


def test_it_consumes_as_a_member_of_a_group(broker: EmbeddedBroker, topic: str) -> None:
    kcat(broker, "-P", "-t", topic, "-K", ":", text=lines(10))
    shown = kcat(broker, "-G", f"group-{topic}", "-X", "auto.offset.reset=earliest", "-e", "-q", topic)
    assert shown.split() == [f"value{number}" for number in range(10)]
