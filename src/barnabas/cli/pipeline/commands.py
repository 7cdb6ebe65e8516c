"""`barnabas pipeline`: data pipelines on Spark, as folders of files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.options import Otlp, Output, OutputFormat, Settings, command_config, parse_settings
from barnabas.cli.output import say, show_done, show_json, show_rows
from barnabas.cli.pipeline.planning import (
    BackfillFlow,
    From,
    FullRefresh,
    Refresh,
    To,
    backfill_of,
    plan_rows,
    run_on_connect_server,
    run_with_spark,
    selection_of,
)

if TYPE_CHECKING:
    from barnabas.pipelines.definitions import PipelineFiles
    from barnabas.pipelines.running import PipelineStatus

app = typer.Typer(
    help="Data pipelines on Spark: create one from a template, run and monitor it.", no_args_is_help=True
)

Folder = Annotated[
    Path, typer.Argument(metavar="[FOLDER]", help="The folder with spark-pipeline.yml [this one].")
]
Brokers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="BARNABAS_BOOTSTRAP",
        metavar="HOST:PORT",
        help="Overrides the brokers in the pipeline's files.",
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Where Spark runs: local[*], spark://HOST:PORT, yarn or k8s://... [that of spark-submit or "
        "spark-defaults.conf, else local[*]].",
    ),
]
BOOTSTRAP_SETTING = "barnabas.bootstrap.servers"
STATUS_COLUMNS = (
    "flow",
    "group",
    "rows",
    "input_rate",
    "processed_rate",
    "lag",
    "batch_seconds",
    "state_rows",
    "late",
)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new or empty folder.")],
    template: Annotated[
        str,
        typer.Option("--template", "-t", help="activity, enrich, logs, operations, recommend or warehouse."),
    ] = "activity",
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create a pipeline from a template. Edit its files as you like.

    Examples:

      barnabas pipeline init clicks --template activity

      barnabas pipeline init lake -t warehouse
    """
    from barnabas.pipelines.definitions import copy_template

    copy_template(template, folder)
    if output is OutputFormat.JSON:
        show_json({"folder": str(folder), "template": template})
        return
    say(f"Made {folder} from the template {template}. Next:")
    say(f"    barnabas pipeline feed {folder} --records 10000    # sample data")
    say(f"    barnabas pipeline run {folder}")


@app.command()
def run(
    folder: Folder = Path(),
    continuous: Annotated[
        bool, typer.Option("--continuous", "-c", help="Run until Ctrl-C or SIGTERM.")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="TIME", help="Run at this interval: 10s, 5 minutes."),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Use Spark's runner, without the additions of barnabas.yml.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="Serve /metrics for Prometheus while it runs."),
    ] = None,
    otlp: Otlp = None,
    refresh: Refresh = None,
    full_refresh: FullRefresh = None,
    backfill: BackfillFlow = None,
    start: From = None,
    end: To = None,
    master: Master = None,
    brokers: Brokers = None,
    settings: Settings = None,
) -> None:
    """Run a pipeline: once over the available records, or continuously with --continuous.

    A run resumes at the checkpoint of the last one, with its state, even after a crash.

    Examples:

      barnabas pipeline run clicks

      barnabas pipeline run clicks --continuous --metrics 127.0.0.1:9464

      barnabas pipeline run clicks --every 30s --bootstrap-server broker:9092

      barnabas pipeline run clicks --full-refresh pages

      barnabas pipeline run clicks --backfill pages --from 2026-11-16T07:00:00Z --to 2026-11-16T09:00:00Z
    """
    if continuous and every is not None:
        raise typer.BadParameter("--continuous and --every are mutually exclusive")
    selection = selection_of(refresh, full_refresh)
    others = continuous or every is not None or selection.is_partial
    filled = backfill_of(backfill, start, end, excluded=others)
    files = _read(folder, settings, brokers)
    if spark and (filled is not None or selection.is_partial):
        raise typer.BadParameter(
            "--spark has no --refresh, --full-refresh and --backfill: use `spark-pipelines`"
        )
    if spark:
        run_with_spark(files, "run")
    selected = {"refresh": refresh, "full-refresh": full_refresh, "backfill": backfill}
    ours = {"continuous": continuous, "every": every, "metrics": metrics, "otlp": otlp}
    run_on_connect_server(files, "run", master, {**ours, **selected})
    pause = None if every is None else _pause(every)
    from barnabas.cli.pipeline.run import run_pipeline
    from barnabas.pipelines.running import Runner

    prepared = partial(Runner, selection=selection, backfill=filled)
    run_pipeline(
        files, prepared, master=master, continuous=continuous, pause=pause, metrics=metrics, otlp=otlp
    )


@app.command("dry-run")
def dry_run(
    folder: Folder = Path(),
    broker: Annotated[bool, typer.Option(help="Check on the broker that the topics exist.")] = True,
    refresh: Refresh = None,
    full_refresh: FullRefresh = None,
    backfill: BackfillFlow = None,
    start: From = None,
    end: To = None,
    master: Master = None,
    brokers: Brokers = None,
    settings: Settings = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Check a pipeline and show what would run or be computed again. Nothing is read and nothing is written.

    Examples:

      barnabas pipeline dry-run clicks

      barnabas pipeline dry-run clicks --full-refresh pages
    """
    selection = selection_of(refresh, full_refresh)
    filled = backfill_of(backfill, start, end, excluded=selection.is_partial)
    files = _read(folder, settings, brokers)
    from barnabas.pipelines.running import Runner, pipeline_session, require_broker

    selected = {"refresh": refresh, "full-refresh": full_refresh, "backfill": backfill}
    run_on_connect_server(files, "dry-run", master, selected)
    if broker:
        require_broker(files)
    with pipeline_session(files.name, files.configuration, master=master) as session:
        runner = Runner(files, session, selection=selection, backfill=filled)
        runner.prepare(ask_broker=broker, make_topics=False)
        rows = plan_rows(runner)
        runner.undo()
    show_rows(output, rows, ("flow", "kind", "mode", "writes_to", "columns"))
    if output is OutputFormat.TABLE:
        for remark in runner.remarks:
            say(remark)
        say(f"{files.name} is valid.")


@app.command()
def status(folder: Folder = Path(), output: Output = OutputFormat.TABLE) -> None:
    """Show the status of a pipeline or the result of its last run.

    Example:

      barnabas pipeline status clicks -o json
    """
    from barnabas.pipelines.definitions import read_pipeline
    from barnabas.pipelines.running import StatusFile

    files = read_pipeline(folder)
    found = StatusFile(files.folder).read()
    if output is OutputFormat.JSON:
        import msgspec

        show_json(None if found is None else msgspec.to_builtins(found))
    elif found is None:
        say(f"{files.name} was never run here. `barnabas pipeline run {folder}` runs it.")
    else:
        _show_status(found)


@app.command()
def jars(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="s3a, iceberg, delta or postgres [list them]."),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FOLDER", help="Copy them there, for a machine without the Internet."),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Download Java libraries of pipelines in advance; without a name, list them.

    Examples:

      barnabas pipeline jars

      barnabas pipeline jars s3a --to ./jars
    """
    from barnabas.spark import LIBRARIES, SETTING, fetch

    if not names:
        rows = [
            {"name": name, "for": each.about, "packages": each.packages} for name, each in LIBRARIES.items()
        ]
        show_rows(output, rows, ("name", "for", "packages"))
        return
    found = fetch(names, to)
    size = sum(jar.stat().st_size for jar in found)
    setting = f"spark.jars: {to}/*" if to else f"{SETTING}: {','.join(names)}"
    show_done(
        output,
        f"{len(found)} jars, {size / 1e6:.0f} MB. For the configuration of the pipeline: `{setting}`.",
        {"jars": [str(jar) for jar in found], "bytes": size, "setting": setting},
    )


@app.command()
def pack(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="The pipeline's folder, for a driver on the cluster [none]."),
    ] = None,
    archive: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Archive to write: .tar.gz or .tgz.")
    ] = Path("env.tar.gz"),
    master: Annotated[
        str, typer.Option("--master", help="Spark's master, for the printed commands.")
    ] = "yarn",
    deploy_mode: Annotated[
        str, typer.Option("--deploy-mode", help="client or cluster, for the printed commands.")
    ] = "client",
    python: Annotated[
        str | None,
        typer.Option("--python", metavar="PATH", help="Python on the nodes [the path of this one]."),
    ] = None,
    version: Annotated[
        str, typer.Option("--python-version", help="Version of Python on the nodes, to check.")
    ] = "",
    machine: Annotated[
        str, typer.Option("--machine", help="Processor of the nodes, to check: x86_64 or aarch64.")
    ] = "",
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="NAME", help="A package to leave out.")
    ] = None,
) -> None:
    """Pack this Python environment for Spark's executors, and print the commands that run a pipeline with it.

    The archive contains the packages of this environment but not PySpark, Java or Python: nodes need a Python of
    the same version.

    Examples:

      barnabas pipeline pack clicks -o env.tar.gz --master spark://HOST:7077

      barnabas pipeline pack clicks --deploy-mode cluster --python /usr/bin/python3.11 --machine x86_64
    """
    from barnabas import pipelines

    if deploy_mode not in ("client", "cluster"):
        raise typer.BadParameter("client or cluster", param_hint="--deploy-mode")
    if folder is not None:
        _read(folder, None, None)  # its errors are reported before the archive is written
    cluster = pipelines.NodePython(python or pipelines.default_python(), version, machine)
    names = pipelines.pack(archive, cluster, folder, without=without or ())
    program = pipelines.write_program(archive)
    lines = pipelines.submit_lines(archive, program, folder or Path("FOLDER"), master, deploy_mode)
    size = archive.stat().st_size
    say(
        f"{archive}: {len(names)} packages, {size / 1e6:.0f} MB, for Python {pipelines.python_version()} on the nodes."
    )
    for line in lines:
        say(line)


@app.command()
def feed(
    folder: Folder = Path(),
    records: Annotated[int, typer.Option("--records", "-n", min=1, help="How many.")] = 10_000,
    rate: Annotated[
        float, typer.Option("--rate", "-r", min=0, help="Records per second; 0 is unlimited.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the generator, for reproducible records.")] = 1,
    template: Annotated[
        str | None, typer.Option("--template", "-t", help="Template to generate for [the pipeline's name].")
    ] = None,
    brokers: Brokers = None,
    settings: Settings = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write realistic records to the topics that a pipeline of the library reads; missing topics are created.

    Example:

      barnabas pipeline feed clicks --records 100000 --rate 2000
    """
    import asyncio

    from barnabas.cli.pipeline.feed import feed_topics

    files = _read(folder, settings, brokers)
    sent = asyncio.run(feed_topics(files, template or files.name, records, rate, seed))
    done = {"records": records, "topics": sorted(sent)}
    show_done(output, f"Sent {records:,} records to {', '.join(sorted(sent))}.", done)


def _read(folder: Path, settings: list[str] | None, brokers: str | None) -> PipelineFiles:
    from barnabas.pipelines import settings_from
    from barnabas.pipelines.definitions import read_pipeline

    overrides = {BOOTSTRAP_SETTING: brokers} if brokers else {}
    if file := command_config():
        overrides |= settings_from(file)
    return read_pipeline(folder, {**overrides, **parse_settings(settings)})


def _pause(every: str) -> float:
    from barnabas.common.durations import seconds_of

    try:
        return seconds_of(every)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--every") from None


def _show_status(found: PipelineStatus) -> None:
    import time

    ago = time.time() - found.updated
    say(f"{found.pipeline} is {found.state}, as of {ago:.0f} s ago (process {found.process}).")
    if found.error is not None:
        say(found.error)
    if found.alarms:
        say(f"Alarms: {', '.join(found.alarms)}")
    rows = [
        {
            "flow": flow.name,
            "group": ", ".join(flow.groups),
            "rows": flow.rows,
            "input_rate": round(flow.input_rate),
            "processed_rate": round(flow.processed_rate),
            "lag": flow.lag,
            "batch_seconds": f"{flow.batch_seconds:.2f}",
            "state_rows": flow.state_rows,
            "late": flow.late,
        }
        for flow in found.flows
    ]
    show_rows(OutputFormat.TABLE, rows, STATUS_COLUMNS)
