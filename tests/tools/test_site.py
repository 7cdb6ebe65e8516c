"""The documentation site: links of its pages, the navigation, and the check of the result. `make site` builds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import site_nav
from tools.site import broken_links, configuration, llms_text, pages, with_site_links

KNOWN = {"install.md", "README.md", "pipelines/index.md", "concepts/chaos.md"}


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("README.md", "[install](docs/install.md#pip)", "[install](install.md#pip)"),
        ("install.md", "[readme](../README.md)", "[readme](overview.md)"),
        ("pipelines/index.md", "[x](../concepts/chaos.md)", "[x](../concepts/chaos.md)"),
        ("concepts/chaos.md", "![x](../images/a.webp)", "![x](../images/a.webp)"),
        ("install.md", "[the test](../tests/cli/test_dev.py)", "the test"),
        ("install.md", "[x](https://kafka.apache.org) [y](#z)", "[x](https://kafka.apache.org) [y](#z)"),
    ],
)
def test_links_fit_the_site(page: str, text: str, expected: str) -> None:
    assert with_site_links(text, page, KNOWN) == expected


def test_every_page_is_listed_once() -> None:
    assert list(site_nav.pages_not_listed()) == []
    assert len(pages()) == len(set(pages()))


def test_a_page_that_is_not_listed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    nav = {title: dict(group) for title, group in site_nav.NAV.items()}
    del nav["Operate"]["Security"]
    nav["Operate"]["Nothing"] = "nothing.md"
    monkeypatch.setattr(site_nav, "NAV", nav)
    complaints = list(site_nav.pages_not_listed())
    assert [complaint.split()[0] for complaint in complaints] == ["security.md", "tools/site_nav.py"]


def test_the_index_for_language_models_has_all_pages() -> None:
    text = llms_text()
    assert text.startswith("# Barnabas\n\n> ")
    assert all(f"({site_nav.site_name(page)})" in text for page in pages())
    assert "overview.md" in configuration()


def test_broken_links_and_anchors_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#there">b</a><a href="b.html#missing">b</a>'
        '<a href="c.html">c</a><a href="#top">top</a><a href="https://example.org/">away</a>'
    )
    (tmp_path / "b.html").write_text('<p id="there"></p><img src="no.webp">')
    assert sorted(broken_links(tmp_path)) == [
        "a.html links to b.html#missing, an anchor that does not exist",
        "a.html links to c.html, which does not exist",
        "b.html links to no.webp, which does not exist",
    ]
