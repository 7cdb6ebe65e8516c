"""The checks of names and words detect violations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_names, check_words


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    source = tmp_path / "src" / "barnabas"
    source.mkdir(parents=True)
    monkeypatch.setattr(check_words, "ROOT", tmp_path)
    monkeypatch.setattr(check_words, "MARKDOWN", ())
    monkeypatch.setattr(check_words, "TEMPLATES", tmp_path / "templates")
    monkeypatch.setattr(check_names, "ROOT", tmp_path)
    monkeypatch.setattr(check_names, "SRC", source)
    monkeypatch.setattr(check_names, "TESTS", tmp_path / "tests")
    monkeypatch.setattr(check_names, "WAITING", tmp_path / "tests" / "waiting.py")
    return source


def test_banned_phrases_are_found_in_messages_docstrings_comments_and_pages(tree: Path) -> None:
    docs = tree.parents[1] / "docs"
    docs.mkdir()
    (docs / "page.md").write_text("The broker goes on.\n")
    (tree / "log.py").write_text('"""What a log is."""\n\nERROR = f"{1} is no time"  # somebody is told\n')
    found = [(folder, where.rpartition(":")[2]) for folder, where, _ in check_words.findings()]
    assert sorted(found) == [("docs", "1"), ("log", "1"), ("log", "3"), ("log", "3"), ("log", "3")]


def test_plain_words_are_no_finding(tree: Path) -> None:
    (tree / "log.py").write_text('"""Log of a partition. Understands standalone brokers."""\n')
    assert list(check_words.findings()) == []


def test_the_glossary_may_quote_banned_phrases(tree: Path) -> None:
    docs = tree.parents[1] / "docs"
    docs.mkdir()
    (docs / "page.md").write_text("# Page\n## Words\nnot `goes on`\n## Tests\nThe broker goes on.\n")
    assert [where for _, where, _ in check_words.findings()] == ["docs/page.md:5"]


def test_a_class_name_that_exists_twice_is_found(tree: Path) -> None:
    for name in ("log", "share"):
        (tree / f"{name}.py").write_text("class Plan: ...\nclass _Private: ...\n")
    assert check_names.classes() == {"Plan": ["barnabas.log", "barnabas.share"]}


def test_banned_identifiers_are_found_where_they_are_bound(tree: Path) -> None:
    (tree / "log.py").write_text("MOST_BYTES = 1\n\ndef append(place): ...\n\nclass Host: ...\n")
    (found,) = check_names.banned_names().values()
    assert sorted(one.rpartition(" ")[2] for one in found) == ["Host", "MOST_BYTES", "place"]


def test_a_test_that_waits_in_its_own_way_is_found(tree: Path) -> None:
    tests = tree.parents[1] / "tests"
    tests.mkdir()
    (tests / "waiting.py").write_text("def until(condition): ...\n")
    methods = "    async def until(self): ...\n    def until_ready(self): ...\n"
    (tests / "test_log.py").write_text(f"def wait_until(condition): ...\n\nclass Broker:\n{methods}")
    assert check_names.own_waits() == [
        "tests/test_log.py:1: def wait_until",
        "tests/test_log.py:4: def until",
    ]
