"""`barnabas doctor`: diagnose problems of this machine, a configuration or a cluster, with remedies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Output, OutputFormat, Settings, parse_settings
from barnabas.cli.output import count, show_json
from barnabas.cli.serve import collect_properties

if TYPE_CHECKING:
    from barnabas.cli.doctor.finding import Finding
    from barnabas.config.broker import BrokerConfig

MARKS = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}
INDENT = " " * 9


def doctor(
    data: Annotated[
        Path | None, typer.Option("--data", "-d", metavar="DIR", help="The data folder of a broker.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="The server.properties file of a broker."),
    ] = None,
    settings: Settings = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            envvar="BARNABAS_BOOTSTRAP",
            metavar="HOST:PORT",
            help=f"Check this cluster as a client [{DEFAULT_BOOTSTRAP} without --data and --config].",
        ),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Check the machine, the configuration of a broker and a running cluster. Changes nothing.

    It checks versions, file descriptors, memory and the clock; with --data or --config also data folders, free
    space, fsync, ports, certificates and ZooKeeper; of a cluster, whether its advertised addresses can be connected
    from here and whether all replicas are in sync. Exits with 1 if there is a problem.

    Examples:

      barnabas doctor

      barnabas doctor --config server.properties

      barnabas doctor --bootstrap-server kafka1:9092 -o json
    """
    findings = []
    for finding in _findings(data, config, parse_settings(settings), bootstrap):
        findings.append(finding)
        if output is OutputFormat.TABLE:
            _show(finding)
    problems = sum(finding.level == "problem" for finding in findings)
    if output is OutputFormat.JSON:
        show_json([finding.as_json() for finding in findings])
    else:
        warnings = sum(finding.level == "warning" for finding in findings)
        print(f"\n{count(problems, 'problem')}, {count(warnings, 'warning')}")
    if problems:
        raise typer.Exit(1)


def _findings(
    data: Path | None, config: Path | None, settings: dict[str, str], bootstrap: str | None
) -> Iterator[Finding]:
    from barnabas.cli.doctor.machine import check_machine

    broker = None
    if data is not None or config is not None or settings:
        broker = _broker_config(data, config, settings)
    wanted = broker["max.connections"] if broker is not None and "max.connections" in broker.static else None
    yield from check_machine(wanted)
    if broker is not None:
        yield from _of_broker(broker)
    if bootstrap is not None:
        yield from _of_cluster(bootstrap)
    elif broker is None:
        yield from _of_default_cluster()


def _broker_config(data: Path | None, config: Path | None, settings: dict[str, str]) -> BrokerConfig:
    from barnabas.config.broker import BrokerConfig

    return BrokerConfig.load(collect_properties(data, None, config, settings))


def _of_broker(config: BrokerConfig) -> Iterator[Finding]:
    from barnabas.cli.doctor.finding import warning
    from barnabas.cli.doctor.network import check_network
    from barnabas.cli.doctor.storage import check_storage, is_in_use

    for text in config.warnings:
        yield warning("settings", text, "docs/configuration.md lists the settings and what they do.")
    yield from check_storage(config)
    yield from check_network(config, is_running=is_in_use(config))


def _of_cluster(bootstrap: str) -> list[Finding]:
    from barnabas.cli.doctor.cluster import check_cluster
    from barnabas.cli.options import with_client

    return with_client(bootstrap, check_cluster)


def _of_default_cluster() -> list[Finding]:
    """A missing cluster is a problem only at an address that was given."""
    from barnabas.cli.doctor.finding import ok

    findings = _of_cluster(DEFAULT_BOOTSTRAP)
    if len(findings) == 1:  # it cannot be connected
        return [ok("cluster", f"none at {DEFAULT_BOOTSTRAP}; --bootstrap-server checks another")]
    return findings


def _show(finding: Finding) -> None:
    print(f"{MARKS[finding.level]}  {finding.check}: {finding.text}")
    if finding.remedy:
        print(f"{INDENT}{finding.remedy}")
