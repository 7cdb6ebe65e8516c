"""`barnabas log`: inspect and repair a broker's files without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import Output, OutputFormat, Yes, confirm
from barnabas.cli.output import count, say, show_json, show_table

if TYPE_CHECKING:
    from barnabas.log.recovery import Damage, Lost, PartitionReport

app = typer.Typer(help="Inspect, verify and repair a broker's log files.", no_args_is_help=True)

Folder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="A partition's folder such as data/orders-0, or a log dir."),
]


@app.command()
def dump(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A partition's folder, or one of its .log files.")
    ],
    records: Annotated[bool, typer.Option("--records", "-r", help="Show records, not only batches.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the batches in a partition's files, and the records in them.

    Examples:

      barnabas log dump data/orders-0

      barnabas log dump data/orders-0/00000000000000000000.log --records -o json
    """
    from barnabas.cli.log.dump import describe_segment

    segments = [describe_segment(segment, records=records) for segment in _segments(path)]
    if output is OutputFormat.JSON:
        show_json(segments)
        return
    for segment in segments:
        _print_segment(segment)
    if any("problem" in segment for segment in segments):
        raise typer.Exit(1)


@app.command()
def verify(folder: Folder, output: Output = OutputFormat.TABLE) -> None:
    """Check every batch, record and index entry. Nothing is changed; the exit code is 1 if something is damaged.

    Example:

      barnabas log verify /var/lib/barnabas
    """
    from barnabas.cli.output import ProgressBar
    from barnabas.common.files import LocalFileSystem
    from barnabas.log.recovery import verify_partition

    reports = []
    partitions = list(_partitions(folder))
    with ProgressBar("checking", len(partitions), unit="partitions") as progress:
        for number, partition in enumerate(partitions, 1):
            reports.append(verify_partition(LocalFileSystem(), str(partition)))
            progress.reached(number)
    _show_reports(reports, output)
    if not all(report.is_sound for report in reports):
        raise typer.Exit(1)


@app.command()
def repair(
    folder: Folder,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Give up partitions whose folder is missing: they restart empty."),
    ] = False,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Remove damaged batches from a log and keep them in a separate folder. Other records keep their offsets.

    Stop the broker first.

    Examples:

      barnabas log repair /var/lib/barnabas/orders-0

      barnabas log repair /var/lib/barnabas/orders-0 --accept-loss
    """
    from barnabas.cli.log.missing import give_up, is_missing
    from barnabas.common.files import LocalFileSystem
    from barnabas.log.dirs import LogDir

    if is_missing(folder) and not accept_loss:
        raise typer.BadParameter(f"{folder} is missing; use --accept-loss to give up its records")
    partitions = [] if accept_loss else list(_partitions(folder))
    parent = partitions[0].parent if partitions else folder.parent if is_missing(folder) else folder
    log_dir = LogDir(LocalFileSystem(), str(parent.resolve()))
    log_dir.state.lock()
    try:
        cut = give_up(log_dir, folder, yes) if accept_loss else _repair(partitions, yes)
    finally:
        log_dir.state.unlock()
    _show_repaired(cut, output)


def _repair(partitions: list[Path], yes: bool) -> list[dict[str, Any]]:
    """Show the damage, confirm, and remove it."""
    from barnabas.common.files import LocalFileSystem
    from barnabas.log.recovery import repair_partition, verify_partition

    fs = LocalFileSystem()
    damaged = [report for part in partitions if not (report := verify_partition(fs, str(part))).is_sound]
    for report in damaged:
        for damage in report.damage:
            say(_describe_damage(damage))
    if damaged:
        confirm(f"Remove it from {count(len(damaged), 'partition')}?", yes)
    return [
        _cut_row(report.folder, lost) for report in damaged for lost in repair_partition(fs, report.folder)
    ]


def _cut_row(folder: str, lost: Lost) -> dict[str, Any]:
    return {
        "partition": Path(folder).name,
        "file": Path(lost.damage.file).name,
        "position": lost.damage.position,
        "bytes": lost.damage.end - lost.damage.position,
        "first_offset": lost.first,
        "next_offset": lost.next,
    }


def _segments(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    segments = sorted(path.glob("*.log"))
    if not segments:
        raise typer.BadParameter(
            f"{path} has no .log files; give a partition's folder, such as data/orders-0"
        )
    return segments


def _partitions(folder: Path) -> Iterator[Path]:
    """The folder itself if it is a partition's, else the partition folders in it."""
    from barnabas.log import partition_of_folder

    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is not a folder")
    folder = folder.resolve()
    candidates = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    found = [path for path in candidates if partition_of_folder(path.name) and any(path.glob("*.log"))]
    if not found:
        raise typer.BadParameter(f"{folder} holds no partitions (folders such as orders-0 with .log files)")
    yield from found


def _print_segment(segment: dict[str, Any]) -> None:
    print(f"{segment['file']}  {count(len(segment['batches']), 'batch')}, {segment['bytes']:,} bytes")
    if segment["batches"]:
        columns = ("position", "bytes", "offsets", "records", "time", "codec", "producer", "epoch", "kind")
        show_table([_batch_row(batch) for batch in segment["batches"]], columns)
    for batch in segment["batches"]:
        for record in batch.get("contents", ()):
            print("  " + " ".join(f"{name}={value!r}" for name, value in record.items()))
    if "problem" in segment:
        print(f"  then: {segment['problem']}")


def _batch_row(batch: dict[str, Any]) -> dict[str, Any]:
    producer = f"{batch['producer_id']}/{batch['producer_epoch']} #{batch['base_sequence']}"
    return {
        "position": batch["position"],
        "bytes": batch["bytes"],
        "offsets": f"{batch['base_offset']}-{batch['last_offset']}",
        "records": batch["records"],
        "time": batch["max_timestamp"],
        "codec": batch["compression"],
        "producer": producer if batch["producer_id"] >= 0 else "-",
        "epoch": batch["leader_epoch"],
        "kind": "control" if batch["control"] else "transactional" if batch["transactional"] else "",
    }


def _show_reports(reports: list[PartitionReport], output: OutputFormat) -> None:
    rows = [
        {
            "partition": Path(report.folder).name,
            "sound": report.is_sound,
            "segments": report.segments,
            "batches": report.batches,
            "records": report.records,
            "bytes": report.bytes,
            "begin": report.begin,
            "end": report.end,
            "damage": [damage._asdict() for damage in report.damage],
            "remarks": report.remarks,
        }
        for report in reports
    ]
    if output is OutputFormat.JSON:
        show_json(rows)
        return
    show_table(rows, ("partition", "sound", "segments", "batches", "records", "bytes", "begin", "end"))
    for report in reports:
        for damage in report.damage:
            print(f"damaged: {_describe_damage(damage)}")
        for remark in report.remarks:
            print(f"remark: {remark}")


def _describe_damage(damage: Damage) -> str:
    where = f"; bytes {damage.position:,} to {damage.end:,}" if damage.end > damage.position else ""
    return f"{damage.file}: {damage.what}{where}"


def _show_repaired(cut: list[dict[str, Any]], output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        show_json(cut)
        return
    if not cut:
        say("Nothing is damaged; nothing was changed.")
    for part in cut:
        if not part["file"]:
            print(
                f"{part['partition']}: given up with its records from offset {part['first_offset']:,} to "
                f"{part['next_offset'] - 1:,}. It restarts empty, unless another replica has them."
            )
            continue
        end = "the end" if part["next_offset"] is None else f"{part['next_offset'] - 1:,}"
        kept = f" The removed bytes are kept in {part['partition']}/damaged." if part["bytes"] else ""
        print(
            f"{part['partition']}: removed {part['bytes']:,} bytes from {part['file']}; records from offset "
            f"{part['first_offset']:,} to {end} may be missing.{kept}"
        )
