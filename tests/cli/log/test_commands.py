import asyncio
import json
from pathlib import Path

import pytest

from barnabas.client.cluster import Client
from barnabas.client.producer import Producer, ProducerSettings
from barnabas.records.batch import iterate_headers
from barnabas.testing import EmbeddedBroker
from tests.support.cli import Cli

BATCHES = 6
RECORDS_IN_A_BATCH = 10


async def fill(servers: str, compression: str) -> None:
    async with (
        Client(servers) as client,
        Producer(client, ProducerSettings(compression=compression)) as producer,
    ):
        for batch in range(BATCHES):
            for number in range(RECORDS_IN_A_BATCH):
                await producer.enqueue("orders", b"order %d" % (batch * RECORDS_IN_A_BATCH + number), b"key")
            await producer.flush()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of a broker that was stopped, with one topic of six batches."""
    folder = tmp_path / "data"
    with EmbeddedBroker(data_dir=folder) as broker:
        broker.create_topic("orders")
        asyncio.run(fill(broker.bootstrap_servers, "none"))
    return folder


def damage(data: Path, *batches: int, byte: int = -3) -> None:
    """Change a byte of these batches, by default one that only the CRC notices."""
    path = data / "orders-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    places = list(iterate_headers(bytes(content)))
    for number in batches:
        position, header = places[number]
        content[position + (byte if byte >= 0 else header.size + byte)] ^= 0xFF
    path.write_bytes(content)


def served_values(data: Path) -> list[str]:
    """Values that a consumer gets from a broker on this folder."""
    with EmbeddedBroker(data_dir=data) as broker:
        cli = Cli(broker.bootstrap_servers)
        return cli.ok("consume", "orders", "--from", "beginning", "-e").out.splitlines()


def orders(*batches: int) -> list[str]:
    return [
        f"order {batch * RECORDS_IN_A_BATCH + number}"
        for batch in batches
        for number in range(RECORDS_IN_A_BATCH)
    ]


def test_dump_shows_batches_and_records(cli: Cli, data: Path) -> None:
    (segment,) = cli.ok("log", "dump", str(data / "orders-0"), "--records", "-o", "json").json
    first, *_ = segment["batches"]
    assert len(segment["batches"]) == BATCHES
    assert (first["base_offset"], first["last_offset"], first["compression"]) == (0, 9, "none")
    assert first["contents"][0] == {
        "offset": 0,
        "timestamp": first["base_timestamp"],
        "key": "key",
        "value": "order 0",
        "headers": {},
    }
    table = cli.ok("log", "dump", str(data / "orders-0" / f"{0:020d}.log")).out
    assert "6 batches" in table
    assert "50-59" in table


def test_sound_files_are_verified(cli: Cli, data: Path) -> None:
    (report,) = cli.ok("log", "verify", str(data), "-o", "json").json
    assert report == {
        "partition": "orders-0",
        "sound": True,
        "segments": 1,
        "batches": BATCHES,
        "records": BATCHES * RECORDS_IN_A_BATCH,
        "bytes": report["bytes"],
        "begin": 0,
        "end": 60,
        "damage": [],
        "remarks": [],
    }


@pytest.mark.parametrize("byte", [-3, 16, 8], ids=["a value", "the magic byte", "the length"])
def test_every_damaged_place_is_found_and_only_that_is_cut_out(cli: Cli, data: Path, byte: int) -> None:
    damage(data, 1, 3, byte=byte)
    found = cli("log", "verify", str(data / "orders-0"), "-o", "json")
    assert found.code == 1
    assert len(json.loads(found.out)[0]["damage"]) == 2

    cut = cli.ok("log", "repair", str(data / "orders-0"), "--yes", "-o", "json").json
    assert [(place["first_offset"], place["next_offset"]) for place in cut] == [(10, 20), (30, 40)]
    assert len(list((data / "orders-0" / "damaged").iterdir())) == 2

    cli.ok("log", "verify", str(data))
    assert served_values(data) == orders(0, 2, 4, 5)


def test_damage_at_the_end_is_cut_to_the_end(cli: Cli, data: Path) -> None:
    damage(data, 5)
    repaired = cli.ok("log", "repair", str(data), "--yes")
    assert "records from offset 50 to the end may be missing" in repaired.out
    assert served_values(data) == orders(0, 1, 2, 3, 4)


def test_a_file_that_lost_its_end_is_found_and_accepted_after_repair(cli: Cli, data: Path) -> None:
    path = data / "orders-0" / f"{0:020d}.log"
    position, _ = list(iterate_headers(path.read_bytes()))[4]
    path.write_bytes(path.read_bytes()[:position])
    found = cli("log", "verify", str(data))
    assert found.code == 1
    assert "ends at offset 40, but was flushed up to 60" in found.out
    assert "records from offset 40 to 59 may be missing" in cli.ok("log", "repair", str(data), "--yes").out
    assert served_values(data) == orders(0, 1, 2, 3)


def test_nothing_is_changed_without_consent_or_without_need(cli: Cli, data: Path) -> None:
    assert "nothing was changed" in cli.ok("log", "repair", str(data)).err
    damage(data, 2)
    before = (data / "orders-0" / f"{0:020d}.log").read_bytes()
    assert cli("log", "repair", str(data), stdin="n\n").code == 1
    assert (data / "orders-0" / f"{0:020d}.log").read_bytes() == before


def test_dump_stops_at_damage_and_reports_it(cli: Cli, data: Path) -> None:
    damage(data, 2)
    dumped = cli("log", "dump", str(data / "orders-0"))
    assert dumped.code == 1
    assert "wrong checksum at position" in dumped.out


def test_files_of_a_running_broker_are_not_repaired(cli: Cli, tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        topic = broker.create_topic()
        refused = cli("log", "repair", str(tmp_path / f"{topic}-0"), "--yes")
        assert refused.code == 1
        assert "stop it first" in refused.err


def test_a_folder_without_partitions_is_wrong_use(cli: Cli, tmp_path: Path) -> None:
    for verb in ("dump", "verify", "repair"):
        assert cli("log", verb, str(tmp_path)).code == 2
