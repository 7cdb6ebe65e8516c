"""Generated pages of the documentation, so that facts in the code are not repeated by hand.

A page is a function that returns its text. `make docs` writes them, `make check` compares them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from barnabas.config import definitions
from barnabas.config.setting import Setting
from barnabas.config.unused_settings import is_without_effect_yet
from barnabas.services.console.alarms.conditions import Area
from tools.doc_apis import compatibility_page
from tools.doc_architecture import architecture_page
from tools.doc_commands import commands_page
from tools.doc_console_api import console_api_page
from tools.doc_marks import GENERATED, ROOT
from tools.doc_metrics import metrics_page
from tools.monitoring.boards import board
from tools.monitoring.rules import rules_file


def configuration_page() -> str:
    sections = {
        "Broker settings": definitions.BROKER,
        "Topic settings": definitions.TOPIC,
        "Group settings": definitions.GROUP,
        "Client metrics settings": definitions.CLIENT_METRICS,
    }
    parts = [
        GENERATED,
        "# Configuration\n",
        (
            "Put settings in a `server.properties` file (`barnabas serve --config FILE`) or on the command line\n"
            "(`--set name=value`). Names, types and defaults are Kafka's; settings that begin with `barnabas.` exist\n"
            "in Barnabas only. *Changes* is the scope in which `kafka-configs` or `barnabas configs` can change the\n"
            "setting of a running broker: not at all (read-only), for one broker, or for the whole cluster.\n"
        ),
    ]
    for title, settings in sections.items():
        shown = [setting for name, setting in sorted(settings.items()) if not setting.internal]
        parts += [f"## {title}\n", "\n".join(_settings_table(shown, title.startswith("Broker"))) + "\n"]
    parts += [
        "## Kafka settings without effect\n",
        "Accepted so that a `server.properties` of Apache Kafka works; the broker logs a warning for each.\n",
        ",\n".join(f"`{name}`" for name in sorted(definitions.UNUSED)) + "\n",
    ]
    return "\n".join(parts)


def _settings_table(settings: list[Setting], with_mode: bool) -> Iterator[str]:
    yield "| setting | type | default | " + ("changes | " if with_mode else "") + "meaning |"
    yield "|---|---|---|" + ("---|" if with_mode else "") + "---|"
    for setting in settings:
        mode = f"{setting.mode.name.lower().replace('_', ' ')} | " if with_mode else ""
        allowed = f" Allowed: {setting.check.allowed}." if setting.check is not None else ""
        without = " *Has no effect yet.*" if is_without_effect_yet(setting.name) else ""
        yield (
            f"| `{setting.name}` | {setting.kind.name.lower()} | {_default(setting.default)} | {mode}"
            f"{_cell(setting.documentation + allowed + without)} |"
        )


def _default(text: str | None) -> str:
    if text is None:
        return "none"
    return f"`{_cell(text)}`" if text else "empty"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


PAGES: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "configuration.md": configuration_page,
    ROOT / "docs" / "commands.md": commands_page,
    ROOT / "docs" / "metrics.md": metrics_page,
    ROOT / "docs" / "console-api.md": console_api_page,
    ROOT / "ARCHITECTURE.md": architecture_page,
    ROOT / "COMPATIBILITY.md": compatibility_page,
    ROOT / "monitoring" / "rules.yml": rules_file,
    **{ROOT / "monitoring" / "grafana" / f"{area.value}.json": partial(board, area) for area in Area},
}
