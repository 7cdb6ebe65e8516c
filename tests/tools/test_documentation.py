"""A setting or a command without documentation, a stale page or a dead link fails here, not in a reader's hands."""

from collections.abc import Callable, Iterator

import pytest

from tools.check_docs import RULES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__.replace("_", " "))
def test_the_documentation_has_no(rule: Callable[[], Iterator[str]]) -> None:
    assert list(rule()) == []
