"""`barnabas connect`: connectors, each a pipeline defined in a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Otlp,
    Output,
    OutputFormat,
    Settings,
    command_config,
    parse_settings,
    with_client,
)
from barnabas.cli.output import say, show_done, show_rows

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.client.status import ProcessStatus
    from barnabas.connect import Connector

app = typer.Typer(
    help="Move rows between topics, databases and files: connectors are YAML files, run on Spark.",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(metavar="NAME.yml", help="The connector's file.")]
Files = Annotated[list[Path], typer.Argument(metavar="NAME.yml...", help="The connectors' files.")]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Where Spark runs: local[*], spark://HOST:PORT, yarn or k8s://... [that of spark-submit or "
        "spark-defaults.conf, else local[*]].",
    ),
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="BARNABAS_BOOTSTRAP",
        metavar="HOST:PORT",
        help="The brokers, instead of those in the file.",
    ),
]
BOOTSTRAP_SETTING = "barnabas.bootstrap.servers"
STATUS_COLUMNS = ("connector", "state", "rows", "rejected", "lag", "restarts", "flow", "error")


@app.command()
def run(
    files: Files,
    once: Annotated[
        bool, typer.Option("--once", help="Exit after moving everything that is available now.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="Serve /metrics for Prometheus while they run."),
    ] = None,
    otlp: Otlp = None,
    master: Master = None,
    brokers: Brokers = None,
    settings: Settings = None,
) -> None:
    """Run connectors in one Spark session until Ctrl-C or SIGTERM. Each resumes at its last committed position.

    A failed connector is restarted with exponential backoff; the others keep running. All report to __barnabas_status.
    Needs Read on the source topics and on the groups connect-NAME, Write on the target topics, on __barnabas_sinks and
    __barnabas_status, and on transactional ids that begin with connect-NAME.

    Examples:

      barnabas connect run orders.yml

      barnabas connect run orders.yml customers.yml --metrics 127.0.0.1:9464

      barnabas connect run orders.yml --once
    """
    connectors = [_read(file, settings, brokers) for file in files]
    from barnabas.cli.connect.run import run_connectors

    run_connectors(connectors, master=master, once=once, metrics=metrics, otlp=otlp)


@app.command()
def validate(
    files: Files,
    spark: Annotated[
        bool, typer.Option(help="Start Spark to check transforms and sink against the fields.")
    ] = True,
    master: Master = None,
    brokers: Brokers = None,
    settings: Settings = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Check connectors and show what would run. Nothing is read and nothing is written.

    Examples:

      barnabas connect validate orders.yml

      barnabas connect validate orders.yml --no-spark
    """
    connectors = [_read(file, settings, brokers) for file in files]
    fields: dict[str, list[str]] = {}
    if spark:
        from barnabas.connect import fields_by_name

        fields = fields_by_name(connectors, master)
    rows = [
        {
            "connector": one.name,
            "from": one.source.location(),
            "transforms": [transform.kind for transform in one.transforms],
            "to": one.sink.location(),
            "fields": fields.get(one.name),
        }
        for one in connectors
    ]
    show_rows(output, rows, ("connector", "from", "transforms", "to", "fields"))
    if output is OutputFormat.TABLE:
        say(f"{', '.join(one.name for one in connectors)}: valid.")


@app.command()
def status(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Names or files of connectors [all].")
    ] = None,
    forget: Annotated[
        str | None,
        typer.Option(
            "--forget", metavar="NAME", help="Remove the status of a connector that will not run again."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the status of connectors: rows moved, lag and errors.

    A connector that stopped reporting is `lost`. Needs Read and Describe on __barnabas_status, and --forget Write.

    Examples:

      barnabas connect status

      barnabas connect status orders.yml -o json
    """
    wanted = {_name_of(one) for one in names or []}

    async def work(client: Client) -> list[ProcessStatus]:
        from barnabas.client.status import forget_status, read_statuses

        if forget is not None:
            await forget_status(client, "connector", forget)
        return await read_statuses(client, "connector")

    found = [one for one in with_client(bootstrap, work) if not wanted or one.name in wanted]
    rows = [
        {
            "connector": one.name,
            "state": one.state,
            "rows": one.counts.get("rows", 0),
            "rejected": one.counts.get("rejected", 0),
            "lag": one.parts[0].lag if one.parts else None,
            "restarts": one.counts.get("restarts", 0),
            "flow": ", ".join(part.name for part in one.parts),
            "error": one.error,
        }
        for one in found
    ]
    show_rows(output, rows, STATUS_COLUMNS, "No connector has reported yet. `barnabas connect run` runs one.")


@app.command()
def pause(file: File, output: Output = OutputFormat.TABLE) -> None:
    """Pause a connector after its current batch until `resume`, even across restarts.

    The request is a file in the connector's storage, so it needs write access there.

    Example:

      barnabas connect pause orders.yml
    """
    connector = _read(file, None, None)
    from barnabas.connect import ControlFiles, state_of

    with state_of(connector) as state:
        ControlFiles(state).pause()
    show_done(
        output,
        f"{connector.name} pauses after the current batch.",
        {"connector": connector.name, "paused": True},
    )


@app.command()
def resume(file: File, output: Output = OutputFormat.TABLE) -> None:
    """Resume a paused connector.

    Example:

      barnabas connect resume orders.yml
    """
    connector = _read(file, None, None)
    from barnabas.connect import ControlFiles, state_of

    with state_of(connector) as state:
        was = ControlFiles(state).resume()
    text = f"{connector.name} resumed." if was else f"{connector.name} was not paused."
    show_done(output, text, {"connector": connector.name, "paused": False})


@app.command()
def restart(file: File, output: Output = OutputFormat.TABLE) -> None:
    """Restart a running or failed connector. It resumes at its last committed position.

    Example:

      barnabas connect restart orders.yml
    """
    connector = _read(file, None, None)
    from barnabas.connect import ControlFiles, state_of

    with state_of(connector) as state:
        ControlFiles(state).restart()
    show_done(output, f"{connector.name} restarts.", {"connector": connector.name, "restarted": True})


@app.command()
def offsets(
    file: File,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="TOPIC:PARTITION=OFFSET", help="Resume at this offset; stop the connector first."
        ),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the source offsets of a connector, or set them while it is stopped.

    The offsets are those of Spark's checkpoint. Lower offsets write rows again; sinks with keys replace them.

    Examples:

      barnabas connect offsets orders.yml

      barnabas connect offsets orders.yml --set orders:0=1200 --set orders:1=0
    """
    connector = _read(file, None, None)
    from barnabas.connect import Positions, partition_and_offset, require_stopped, rows_of, state_of

    try:
        wanted = dict(partition_and_offset(text) for text in sets or [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from None
    if wanted:
        require_stopped(connector)
    with state_of(connector) as state:
        positions = Positions(state, connector.name)
        if wanted:
            positions.set(wanted)
        rows = rows_of(positions.read())
        if (reached := positions.incoming()) is not None:
            rows = [{"source": "rows up to", "partition": None, "offset": reached}]
    show_rows(
        output, rows, ("source", "partition", "offset"), f"{connector.name} has not completed a batch yet."
    )


@app.command()
def worker(
    configs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...", help="Connector configurations of Kafka Connect, as JSON or properties."
        ),
    ] = None,
    plugins: Annotated[
        Path,
        typer.Option("--plugins", metavar="DIR", help="The plugin folder; each plugin is a folder or a jar."),
    ] = Path("plugins"),
    kafka_libs: Annotated[
        Path | None,
        typer.Option("--kafka-libs", metavar="DIR", help="The folder `libs` of Apache Kafka. [KAFKA_LIBS]"),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Port of the REST API, on this machine.")] = 8083,
    group: Annotated[
        str, typer.Option("--group", help="The group id of the workers, and the prefix of their topics.")
    ] = "barnabas-connect",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    settings: Settings = None,
) -> None:
    """Run Apache Kafka's Connect runtime with unmodified third-party plugins until Ctrl-C or SIGTERM.

    Exactly-once is enabled for sources. Failed tasks are restarted, and `connect status` shows all connectors.
    Needs the ACLs of Kafka Connect: Read, Write, Describe and Create on the topics GROUP-configs, -offsets and -status,
    Read on the group, Write and Describe on transactional ids that begin with GROUP, and Write on __barnabas_status.

    Example:

      barnabas connect worker jdbc.json --plugins /opt/plugins --kafka-libs /opt/kafka/libs
    """
    from barnabas.cli.connect.worker import run_worker
    from barnabas.connect import WorkerSettings, find_libs, read_configs

    value = WorkerSettings(
        bootstrap,
        plugins,
        find_libs(kafka_libs),
        port,
        group,
        security=_security(),
        more=parse_settings(settings),
    )
    run_worker(value, read_configs(configs or []))


def _security() -> dict[str, str]:
    """The settings of `--command-config`, for the runtime's clients."""
    from barnabas.client.security import is_security_setting, read_properties

    file = command_config()
    found = {} if file is None else read_properties("--command-config", file)
    return {name: value for name, value in found.items() if is_security_setting(name)}


def _read(file: Path, settings: list[str] | None, brokers: str | None) -> Connector:
    from barnabas.connect import read_connector
    from barnabas.pipelines import settings_from

    value = {BOOTSTRAP_SETTING: brokers} if brokers else {}
    if config := command_config():
        value |= settings_from(config)
    return read_connector(file, {**value, **parse_settings(settings)})


def _name_of(text: str) -> str:
    """The name of a connector that is given by name or by file."""
    if not text.endswith((".yml", ".yaml")):
        return text
    return _read(Path(text), None, None).name
