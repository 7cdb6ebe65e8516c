"""`barnabas tier`: inspect, verify and repair tiered topics in an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, Yes, confirm
from barnabas.cli.output import count, say, show_json, show_table, size
from barnabas.cli.tiering import repair as tier_repair
from barnabas.cli.tiering import status as tier_status
from barnabas.cli.tiering import verify as tier_verify
from barnabas.cli.tiering.stores import StoreOptions, StoreUrl, TopicInStore, TopicName, with_topic_in_store

if TYPE_CHECKING:
    from barnabas.tiering.objects import Manifest, PartitionFolder
    from barnabas.tiering.stores import ObjectStore


# -- `barnabas tier quarantine`: segments that an unclean election or a repair has set aside -----------

COLUMNS = ("partition", "first", "next", "size", "since", "key")


def quarantine(
    topic: TopicName,
    store: StoreUrl,
    option: StoreOptions = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Give them up: the leaders delete the objects.")
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List the quarantined segments of a topic: kept in the object store, but no longer part of the topic.

    After an unclean election the records of the new leader count; segments with other records are set aside. So are
    segments that a repair could not fit in. Nothing reads them, and nothing but this command, with --delete, has them
    deleted: by the leaders, after barnabas.remote.delete.delay.ms, unless a snapshot keeps them.

    Examples:

      barnabas tier quarantine clicks --store s3://history/production

      barnabas tier quarantine clicks --store file:///history --delete --yes
    """
    found = with_topic_in_store(bootstrap, topic, store, option, _read)
    rows = [facts for folder, manifest in found for facts in facts_of(folder, manifest)]
    if delete and rows:
        confirm(f"Delete {count(len(rows), 'segment')} of {topic} for good?", yes)
        with_topic_in_store(bootstrap, topic, store, option, _drop)
    if output is OutputFormat.JSON:
        show_json({"topic": topic, "deleted": bool(delete and rows), "segments": rows})
        return
    if rows:
        show_table([{**row, "size": size(row["bytes"])} for row in rows], COLUMNS)
    say(_quarantine_hint(topic, len(rows), delete))


async def _read(found: TopicInStore, store: ObjectStore) -> list[tuple[PartitionFolder, Manifest]]:
    from barnabas.tiering.objects import read_manifest

    seen = [(folder, await read_manifest(store, folder)) for folder in found.folders]
    return [(folder, each.manifest) for folder, each in seen if each is not None]


async def _drop(found: TopicInStore, store: ObjectStore) -> None:
    import time
    from functools import partial

    from barnabas.tiering.objects import change_manifest, check_live, drop_quarantine

    async def dropped(manifest: Manifest) -> Manifest:
        return drop_quarantine(manifest, time.time_ns() // 1_000_000)

    for folder, manifest in await _read(found, store):
        if manifest.quarantine:
            await change_manifest(store, folder, dropped, partial(check_live, folder=folder))


def facts_of(folder: PartitionFolder, manifest: Manifest) -> list[dict[str, Any]]:
    from datetime import UTC, datetime

    return [
        {
            "partition": folder.partition,
            "first": each.base,
            "next": each.end,
            "bytes": each.size,
            "since": datetime.fromtimestamp(each.since_ms / 1000, UTC).isoformat(timespec="seconds"),
            "key": each.key,
        }
        for each in manifest.quarantine
    ]


def _quarantine_hint(topic: str, number: int, delete: bool) -> str:
    if not number:
        return f"Nothing of {topic} is in quarantine."
    if delete:
        return f"{count(number, 'segment')} given up. The leaders notice within ten minutes, and delete them."
    return f"{count(number, 'segment')} in quarantine. --delete gives them up."


app = typer.Typer(help="Inspect, verify and repair tiered topics in an object store.", no_args_is_help=True)

app.command("status")(tier_status.status)
app.command("verify")(tier_verify.verify)
app.command("repair")(tier_repair.repair)
app.command("quarantine")(quarantine)
