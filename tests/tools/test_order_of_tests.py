"""Distribution of tests to processes (tests/conftest.py)."""

from __future__ import annotations

from tests.conftest import SLOW_FOLDERS, TESTS, WITH_SPARK
from tests.support.programs import PROJECT_ROOT


def test_every_folder_that_the_order_of_tests_names_is_there() -> None:
    """One that was renamed would run at another time, or in two processes that want the same port."""
    named = [*(TESTS / folder for folder in SLOW_FOLDERS), *(PROJECT_ROOT / folder for folder in WITH_SPARK)]
    assert [str(folder) for folder in named if not folder.exists()] == []
