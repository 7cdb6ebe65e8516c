"""Log search in a cluster of the console."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.client.cluster import Client
from barnabas.services.console.access.console_file import ConsoleFileError, read_console_file
from barnabas.services.console.logs.service import LogService
from barnabas.services.console.statuses import StatusBoard

FILE = "clusters: [{name: c, bootstrap: '127.0.0.1:9092', logs: [app.logs], %s}]\n"


def test_retention_time_and_size_are_set_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "console.yml"
    file.write_text(FILE % "logs_hours: 48, logs_gib: 0.5")
    (cluster,) = read_console_file(file).clusters
    client = Client(cluster.bootstrap)
    archive = LogService(client, tmp_path / "logs", cluster, StatusBoard(client))._opened()
    assert (archive.store.settings.keep_seconds, archive.store.settings.most_bytes) == (48 * 3600, 2**29)
    archive.close()


@pytest.mark.parametrize("wrong", ["logs_hours: 0", "logs_gib: -1", "logs_gib: much"])
def test_a_length_or_a_size_that_cannot_be_is_refused_with_its_line(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "console.yml"
    file.write_text(FILE % wrong)
    with pytest.raises(ConsoleFileError, match=wrong.partition(":")[0]):
        read_console_file(file)
