"""The generated pages of the documentation: what the code knows about itself is not written down twice.

A page is a function that returns its text. `make docs` writes them, `make check` compares them.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from barnabas.config import definitions
from barnabas.config.setting import Setting
from barnabas.config.unused_settings import is_without_effect_yet
from barnabas.protocol.api import APIS
from barnabas.server.handlers import HANDLERS
from barnabas.server.routes import Handler
from tools.doc_commands import commands_page
from tools.doc_marks import GENERATED, ROOT
from tools.doc_metrics import metrics_page


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
            "Names, types and defaults are Kafka's; settings that begin with `barnabas.` are ours. Give them in a\n"
            "`server.properties` file (`barnabas serve --config FILE`) or one by one (`--set name=value`).\n"
            "*Changes* says whether a running broker takes a new value through `kafka-configs` or\n"
            "`barnabas configs`: never (read-only), for one broker, or for the whole cluster.\n"
        ),
    ]
    for title, settings in sections.items():
        shown = [setting for name, setting in sorted(settings.items()) if not setting.internal]
        parts += [f"## {title}\n", "\n".join(_settings_table(shown, title.startswith("Broker"))) + "\n"]
    parts += [
        "## Settings of Kafka that are accepted and mean nothing here\n",
        "A `server.properties` written for Apache Kafka is not refused because of them; a warning names each.\n",
        ", ".join(f"`{name}`" for name in sorted(definitions.UNUSED)) + "\n",
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


def _served_to(handler: Handler) -> str:
    if handler.brokers_only_since is None:
        return "clients"
    return f"clients; brokers from {handler.brokers_only_since}" if handler.brokers_only_since else "brokers"


def compatibility_page() -> str:
    served = {handler.request_class.api_key: handler for handler in HANDLERS}
    rows = [
        f"| {int(key)} | {APIS[key].name} | {handler.min_version} to {handler.max_version} | {_served_to(handler)} |"
        for key, handler in sorted(served.items())
    ]
    return "\n".join(
        [
            GENERATED,
            "# Compatibility\n",
            (
                "The APIs of Kafka's protocol that Barnabas serves, from the table that also answers ApiVersions.\n"
                "What is not in this table is not served: a client sees that in ApiVersions, too. What only brokers\n"
                "send is served on the inter-broker listener of a cluster "
                "([why](docs/decisions/0021-broker-only-powers.md)).\n"
            ),
            "| key | API | versions | for |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


PAGES: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "configuration.md": configuration_page,
    ROOT / "docs" / "commands.md": commands_page,
    ROOT / "docs" / "metrics.md": metrics_page,
    ROOT / "COMPATIBILITY.md": compatibility_page,
}
