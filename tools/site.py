"""`make site`: the documentation as a static site in build/site, with search, llms.txt and each page as Markdown.

Zensical renders the pages of docs/ and of the repository's root, grouped by tools/site_nav.py. Links to files that are
not pages (sources, tests) become plain text, because the site has no repository to link to. Every internal link and
anchor of the result is checked.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from tools.doc_marks import ROOT
from tools.site_nav import HOME, ROOT_PAGES, navigation, site_name, source_of

BUILD = ROOT / "build" / "site"
SOURCES, RESULT, CONFIG = BUILD / "docs", BUILD / "site", BUILD / "zensical.toml"
SITE_NAME = "Barnabas"
SUMMARY = "A Kafka broker that installs with pip: Kafka's wire protocol and on-disk log, in Python."

FEATURES = (
    "content.code.copy",
    "navigation.tabs",
    "navigation.top",
    "navigation.footer",
    "search.highlight",
    "toc.follow",
)

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


# -- Pages: copied into one folder, with links that fit ---------------------------------------------------


def pages() -> list[str]:
    return [page for group in navigation().values() for page in group.values()]


def copy_sources() -> None:
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "images", SOURCES / "images")
    known = set(pages())
    for page in known:
        target = SOURCES / site_name(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(with_site_links(source_of(page).read_text(encoding="utf-8"), page, known))


def with_site_links(text: str, page: str, known: set[str]) -> str:
    """Text of a page with its relative links as the site needs them."""

    def replaced(match: re.Match[str]) -> str:
        image, label, target, anchor = match.groups()
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        linked = linked_page(page, target)
        if linked not in known and not (linked or "").startswith("images/"):
            return label
        depth = len(PurePosixPath(page).parts) - 1
        return f"{image}[{label}]({'../' * depth}{site_name(linked or '')}{anchor or ''})"

    return _LINK.sub(replaced, text)


def linked_page(page: str, target: str) -> str | None:
    """The page or image that a link of `page` names; None for other files."""
    folder = source_of(page).parent
    path = (folder / target).resolve()
    if path.parent == ROOT and path.name in ROOT_PAGES:
        return path.name
    try:
        return path.relative_to(ROOT / "docs").as_posix()
    except ValueError:
        return None


# -- Zensical -----------------------------------------------------------------------------------------------


def configuration() -> str:
    """zensical.toml. JSON strings are TOML strings, too."""
    nav = ",\n".join(_group(title, group) for title, group in navigation().items())
    return f"""[project]
site_name = {json.dumps(SITE_NAME)}
site_description = {json.dumps(SUMMARY)}
docs_dir = "docs"
site_dir = "site"
use_directory_urls = false
nav = [
{nav}
]

[project.theme]
language = "en"
font = false
features = {json.dumps(FEATURES)}

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Dark mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Light mode"

[project.markdown_extensions]
attr_list = {{}}
tables = {{}}
toc.permalink = true
pymdownx.highlight.anchor_linenums = true
pymdownx.superfences = {{}}
"""


def _group(title: str, group: dict[str, str]) -> str:
    entries = ", ".join(
        f"{{ {json.dumps(name)} = {json.dumps(site_name(page))} }}" for name, page in group.items()
    )
    return f"  {{ {json.dumps(title)} = [{entries}] }}"


def build(zensical: str) -> None:
    CONFIG.write_text(configuration())
    subprocess.run(
        [str(Path(zensical).absolute()), "build", "--config-file", str(CONFIG)], check=True, cwd=BUILD
    )


# -- For language models: an index, and each page as Markdown (llmstxt.org) ---------------------------------


def write_markdown() -> None:
    for page in map(site_name, pages()):
        target = RESULT / page
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SOURCES / page, target)
    (RESULT / "llms.txt").write_text(llms_text())


def llms_text() -> str:
    lines = [f"# {SITE_NAME}", "", f"> {SUMMARY}", ""]
    for title, group in navigation().items():
        lines += [f"## {title}", "", *(f"- [{name}]({site_name(page)})" for name, page in group.items()), ""]
    return "\n".join(lines)


# -- Links of the result ----------------------------------------------------------------------------------------


class PageParser(HTMLParser):
    """Collects the links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif value and (tag, name) in {
                ("a", "href"),
                ("img", "src"),
                ("script", "src"),
                ("link", "href"),
            }:
                self.links.append(value)


def broken_links(result: Path) -> Iterator[str]:
    parsed = {path: _parsed(path) for path in sorted(result.rglob("*.html"))}
    for path, page in parsed.items():
        if path.name == "404.html":  # its links are absolute
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = parsed[target].anchors if target in parsed else set()
            if not target.exists():
                yield f"{path.relative_to(result)} links to {link}, which does not exist"
            elif parts.fragment and target in parsed and unquote(parts.fragment) not in anchors:
                yield f"{path.relative_to(result)} links to {link}, an anchor that does not exist"


def _parsed(path: Path) -> PageParser:
    parser = PageParser()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser


def main() -> int:
    copy_sources()
    build(sys.argv[1])
    write_markdown()
    broken = sorted(set(broken_links(RESULT)))
    for line in broken:
        print(line)
    home = RESULT / HOME.replace(".md", ".html")
    print(f"{len(broken)} broken links" if broken else f"{len(pages())} pages: {home.relative_to(ROOT)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
