from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.session import Session


@pytest.fixture
def session_without_brokers(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path) as session:
        yield session
