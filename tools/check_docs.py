"""Documentation checks of `make check`: generated pages are current, settings and commands documented, links valid."""

import re
import sys
from collections.abc import Callable, Iterator

from barnabas.config import definitions
from barnabas.handlers.table import HANDLERS
from tools.doc_command_lines import wrong_command_lines
from tools.doc_commands import commands, options_of
from tools.doc_marks import ROOT
from tools.doc_pages import PAGES
from tools.site_nav import pages_not_listed

_LINK = re.compile(r"\]\(([^)#]+)(#[^)]*)?\)")
_MODULE = re.compile(r"`([a-z_]+/[a-z_/]+(?:\.py)?)`")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")

# Matches within one sentence or table cell.
_NOT_SERVED = re.compile(r"[^.;|:]*\b(?:is|are) not (?:served|supported|implemented)\b")
# Terms used in the documentation for entries of the handler table.
_API_OF = {
    "ACLs": "CreateAcls",
    "TLS": "ApiVersions",
    "SASL": "SaslAuthenticate",
    "SCRAM": "AlterUserScramCredentials",
    "quotas": "AlterClientQuotas",
    "tokens": "CreateDelegationToken",
    "transactions": "InitProducerId",
    "queues": "ShareFetch",
}


def stale_pages() -> Iterator[str]:
    for path, page in PAGES.items():
        if not path.exists() or path.read_text() != page():
            yield f"{path.relative_to(ROOT)} is not up to date: run `make docs`"


def settings_without_words() -> Iterator[str]:
    for scope, settings in definitions.BY_SCOPE.items():
        for setting in settings.values():
            if not setting.documentation.strip():
                yield f"the {scope.name.lower()} setting {setting.name} has no documentation"


def commands_without_words() -> Iterator[str]:
    for path, command in commands():
        if not command.help:
            yield f"`{path}` has no help text"
        for names, text in options_of(command):
            if not text:
                yield f"`{path} {names}` has no help text"


def links_to_nowhere() -> Iterator[str]:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target, _anchor in _LINK.findall(page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)} links to {target}, which does not exist"


def tests_that_do_not_exist() -> Iterator[str]:
    """Report references to tests that do not exist."""
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for file, name in _TEST.findall(page.read_text()):
            if not (ROOT / file).exists() or f"def {name}(" not in (ROOT / file).read_text():
                yield f"{page.relative_to(ROOT)} names {file}::{name}, which does not exist"


def modules_that_do_not_exist() -> Iterator[str]:
    """Report paths in ARCHITECTURE.md that do not exist."""
    source = ROOT / "src" / "barnabas"
    for named in sorted(set(_MODULE.findall((ROOT / "ARCHITECTURE.md").read_text()))):
        room = source / named.partition("/")[0]
        module = source / named.removesuffix(".py")
        if room.is_dir() and not module.is_dir() and not module.with_suffix(".py").exists():
            yield f"ARCHITECTURE.md names {named}, which does not exist"


def apis_said_not_to_be_served() -> Iterator[str]:
    """Report pages that call a served API unsupported. COMPATIBILITY.md is generated from the handler table."""
    served = {row.request_class.__name__.removesuffix("Request") for row in HANDLERS}
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        for claim in _NOT_SERVED.findall(page.read_text()):
            for word in re.findall(r"\w+", claim):
                if _API_OF.get(word, word) in served:
                    yield f"{page.relative_to(ROOT)} says that {word} is not served, and it is: '{claim.strip()}'"


# Each rule is a function that yields complaints.
RULES: tuple[Callable[[], Iterator[str]], ...] = (
    stale_pages,
    settings_without_words,
    commands_without_words,
    links_to_nowhere,
    tests_that_do_not_exist,
    modules_that_do_not_exist,
    apis_said_not_to_be_served,
    pages_not_listed,
    wrong_command_lines,
)


def main() -> int:
    complaints = [complaint for rule in RULES for complaint in rule()]
    for complaint in complaints:
        print(complaint)
    print(f"documentation: {len(complaints)} complaints" if complaints else "documentation is complete")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
