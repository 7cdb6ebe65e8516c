"""`barnabas configs`: dynamic settings of topics, brokers and groups, and subscriptions to client metrics."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    parse_settings,
    with_client,
)
from barnabas.cli.output import show_definitions, show_done, show_rows

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.protocol.messages.configs import DescribeConfigsResourceResult

app = typer.Typer(
    help="Show and change settings of topics, brokers, groups and client metrics.", no_args_is_help=True
)

ALL_BROKERS = "default"  # Kafka's name for cluster-wide broker settings


class ConfigResource(StrEnum):
    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


RESOURCE_TYPES = {
    ConfigResource.TOPIC: 2,
    ConfigResource.BROKER: 4,
    ConfigResource.CLIENT_METRICS: 16,
    ConfigResource.GROUP: 32,
}

KindArgument = Annotated[ConfigResource, typer.Argument(help="The type of the resource.")]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help=f"Topic, group, subscription or broker id; `{ALL_BROKERS}` for all brokers.",
    ),
]


@app.command("list")
def list_resources(
    kind: Annotated[ConfigResource | None, typer.Option("--kind", help="Only these.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List the topics, brokers, groups and client metrics with changed settings.

    Example:

      barnabas configs list --kind topic
    """
    rows = with_client(bootstrap, lambda client: _list(client, [kind] if kind else list(ConfigResource)))
    show_rows(output, rows, ("kind", "name"), empty="Nothing has changed settings.")


@app.command()
def describe(
    kind: KindArgument,
    name: NameArgument,
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Include settings with default values.")
    ] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Show the documentation of each setting.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show settings and the source of each value.

    Examples:

      barnabas configs describe topic orders --all

      barnabas configs describe broker 1 --docs
    """
    found = with_client(bootstrap, lambda client: _describe(client, kind, name, docs))
    rows = [_row(config, docs) for config in found if everything or config.config_source != 5]
    if docs and output is OutputFormat.TABLE:
        terms = [{**row, "term": f"{row['name']}={row['value']}  ({row['source']})"} for row in rows]
        show_definitions(terms, "term", "documentation")
        return
    empty = f"All settings of {kind} {name} are default; --all shows them."
    show_rows(output, rows, ("name", "value", "source"), empty)


@app.command("set")
def set_configs(
    kind: KindArgument,
    name: NameArgument,
    settings: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help="Settings, by Kafka's names.")
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Change settings. Other settings are unchanged.

    Examples:

      barnabas configs set topic orders retention.ms=86400000 cleanup.policy=delete

      barnabas configs set broker default log.retention.ms=604800000

      barnabas configs set client-metrics latency metrics=org.apache.kafka.producer. interval.ms=10000
    """
    pairs = parse_settings(settings)
    _alter(bootstrap, kind, name, {key: (0, value) for key, value in pairs.items()})
    text = f"Changed {', '.join(pairs)} of {kind} {name}."
    show_done(output, text, {"kind": str(kind), "name": name, "set": pairs})


@app.command()
def unset(
    kind: KindArgument,
    name: NameArgument,
    settings: Annotated[
        list[str], typer.Argument(metavar="SETTING...", help="Settings to reset to the default.")
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Reset settings to their defaults.

    Example:

      barnabas configs unset topic orders retention.ms
    """
    _alter(bootstrap, kind, name, dict.fromkeys(settings, (1, None)))
    text = f"{', '.join(settings)} of {kind} {name}: back to the default."
    show_done(output, text, {"kind": str(kind), "name": name, "unset": settings})


def _alter(
    bootstrap: str, kind: ConfigResource, name: str, changes: dict[str, tuple[int, str | None]]
) -> None:
    from barnabas.client import admin

    wanted = [admin.ConfigChange(key, value, operation) for key, (operation, value) in changes.items()]
    with_client(
        bootstrap,
        lambda client: admin.alter_configs(client, RESOURCE_TYPES[kind], _resource_name(kind, name), wanted),
    )


async def _describe(
    client: Client, kind: ConfigResource, name: str, docs: bool
) -> list[DescribeConfigsResourceResult]:
    from barnabas.client import admin

    return await admin.describe_configs(
        client, RESOURCE_TYPES[kind], _resource_name(kind, name), documentation=docs
    )


async def _list(client: Client, kinds: list[ConfigResource]) -> list[dict[str, Any]]:
    from barnabas.client import admin

    rows = []
    for kind in kinds:
        resources = await admin.list_config_resources(client, [RESOURCE_TYPES[kind]])
        rows += [
            {"kind": str(kind), "name": resource.resource_name or ALL_BROKERS}
            for resource in sorted(resources, key=lambda resource: resource.resource_name)
        ]
    return rows


def _resource_name(kind: ConfigResource, name: str) -> str:
    return "" if kind is ConfigResource.BROKER and name == ALL_BROKERS else name


def _row(config: DescribeConfigsResourceResult, docs: bool) -> dict[str, Any]:
    from barnabas.client.admin import CONFIG_SOURCES

    row = {
        "name": config.name,
        "value": config.value,
        "source": CONFIG_SOURCES.get(config.config_source, "unknown"),
        "read_only": config.read_only,
        "sensitive": config.is_sensitive,
    }
    if docs:
        row["documentation"] = config.documentation
    return row
