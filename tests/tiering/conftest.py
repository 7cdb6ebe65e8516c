from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.tiering.stores import moto_server


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """The options of an S3 with a bucket. It takes a second or more to start."""
    with moto_server() as options:
        yield options
