import importlib.util

import pytest

from examples.demo import tour


def test_the_tour_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    tour.main()
    shown = capsys.readouterr().out
    assert "50,000 records are still there" in " ".join(shown.split())


def test_the_tour_works_without_another_client(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    tour.main()
    shown = " ".join(capsys.readouterr().out.split())
    assert "Barnabas' own client wrote 50,000 records" in shown
    assert "50,000 records are still there" in shown
