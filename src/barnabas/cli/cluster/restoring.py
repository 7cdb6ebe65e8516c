"""`barnabas cluster restore`: restore a cluster from its object store."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import Output, OutputFormat, Settings, Yes, confirm, parse_settings
from barnabas.cli.output import ProgressBar, count, say, show_json, size
from barnabas.cli.tiering.stores import StoreOptions, with_store

if TYPE_CHECKING:
    from barnabas.broker.restore import Restored, RestorePlan, RestoreTarget
    from barnabas.tiering.stores import ObjectStore

SHOWN = 20


def restore(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL", help="The brokers' barnabas.remote.storage.url: s3://BUCKET/PREFIX, ..."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            "-d",
            metavar="DIR",
            help="For a single node: its data folder, which must be new or empty.",
        ),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT,.../PATH",
            help="For a cluster: its ZooKeeper. The path must not hold a cluster.",
        ),
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option("--cluster-id", metavar="ID", help="Needed if the store holds several clusters."),
    ] = None,
    node_id: Annotated[
        int | None, typer.Option("--node-id", min=0, help="The id of the single node [the setting's].")
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option(
            "--brokers",
            metavar="ID,ID,...",
            help="With --zookeeper: ids of the new brokers [the former ones].",
        ),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Continue even if some topics are restored empty or truncated."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be restored.")] = False,
    option: StoreOptions = None,
    settings: Settings = None,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Restore a lost cluster from its object store: topics, settings, ACLs, users, quotas and committed offsets.

    Records are restored up to the last copied one; nothing is downloaded. Then start the brokers with empty folders and
    their former tiered-storage settings. A former cluster that still runs is fenced: it can neither copy nor delete
    objects. Needs the rights to get, put, delete and list objects, and no rights in a cluster. If it is interrupted,
    run it again.

    Examples:

      barnabas cluster restore s3://history/production --data ./new --dry-run

      barnabas cluster restore file:///history --data ./new --accept-loss --yes

      barnabas cluster restore s3://history/production --zookeeper zk1:2181,zk2:2181/restored --brokers 1,2,3
    """
    target = _target(data, zookeeper, node_id, brokers, parse_settings(settings))
    plan = with_store(url, option, lambda store: _plan(store, url, cluster_id, target), "URL")
    facts = plan_facts(plan)
    if dry_run:
        _show(output, facts, {})
        return
    _refuse_loss(plan, facts, accept_loss)
    if not yes:
        _describe(facts)
    confirm(f"Restore cluster {plan.cluster_id}, and fence the former one?", yes)
    done = with_store(url, option, lambda store: _carry_out(store, plan, target), "URL")
    _show(output, facts, {"incarnation": done.incarnation, "offsets": done.offsets})
    if output is OutputFormat.TABLE:
        options = f"--data {data}" if data is not None else f"--zookeeper {zookeeper} --node-id N --data DIR"
        say(
            f"Start {'it' if data is not None else 'its brokers'} with: barnabas serve {options} "
            f"--set remote.log.storage.system.enable=true --set barnabas.remote.storage.url={url}"
        )


def _target(
    data: Path | None,
    zookeeper: str | None,
    node_id: int | None,
    brokers: str | None,
    settings: dict[str, str],
) -> RestoreTarget:
    from barnabas.broker.restore import FolderTarget, ZooKeeperTarget
    from barnabas.config.broker import BrokerConfig

    if (data is None) == (zookeeper is None):
        raise typer.BadParameter("give a target: --data DIR for a single node, or --zookeeper HOST:PORT/PATH")
    if zookeeper is not None:
        ids = _broker_ids(brokers)
        return ZooKeeperTarget(BrokerConfig.load({**settings, "zookeeper.connect": zookeeper}), ids)
    assert data is not None
    config = BrokerConfig.load({**settings, "log.dirs": str(data)})
    return FolderTarget(data, config.node_id if node_id is None else node_id)


def _broker_ids(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(dict.fromkeys(int(each) for each in text.split(",")))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of ids, such as 1,2,3", param_hint="--brokers"
        ) from None


async def _plan(store: ObjectStore, url: str, wanted: str | None, target: RestoreTarget) -> RestorePlan:
    from barnabas.broker.restore import choose_cluster, make_plan

    await target.check()
    cluster_id = await choose_cluster(store, url, wanted)
    with _ProgressBars() as bars:
        return await make_plan(store, cluster_id, bars.callbacks())


async def _carry_out(store: ObjectStore, plan: RestorePlan, target: RestoreTarget) -> Restored:
    from barnabas.broker.restore import restore_cluster

    with _ProgressBars() as bars:
        return await restore_cluster(store, plan, target, bars.callbacks())


class _ProgressBars:
    """A progress bar per step."""

    def __init__(self) -> None:
        self._bar: ProgressBar | None = None
        self._done = 0

    def __enter__(self) -> _ProgressBars:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def callbacks(self) -> Any:
        from barnabas.broker.restore import RestoreProgress

        return RestoreProgress(self._begin, self._one)

    def _begin(self, what: str, total: int) -> None:
        self._end()
        self._bar, self._done = ProgressBar(what, total, unit="partitions"), 0
        self._bar.__enter__()

    def _one(self) -> None:
        self._done += 1
        if self._bar is not None:
            self._bar.reached(self._done)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None


# -- output -------------------------------------------------------------------------------------------


def plan_facts(plan: RestorePlan) -> dict[str, Any]:
    topics = plan.topics
    return {
        "cluster_id": plan.cluster_id,
        "metadata": plan.state.key,
        "partitions": len(plan.kept),
        "bytes": sum(each.manifest.size for each in plan.kept),
        "topics": list(topics.restored),
        "adopted": list(topics.adopted),
        "empty": list(topics.empty),
        "newest_record_ms": newest_timestamp(plan),
        "deleted": list(topics.deleted),
        "left_alone": sorted({topic.name for topic in topics.unnamed}),
        "cut": [
            {
                "topic": each.folder.topic,
                "partition": each.folder.partition,
                "offset": each.cut_at,
                "why": each.missing,
            }
            for each in plan.cuts
        ],
    }


def newest_timestamp(plan: RestorePlan) -> int | None:
    """Largest timestamp of the copied records; None if the store has none."""
    return max((part.largest_timestamp for each in plan.kept for part in each.manifest.parts), default=None)


def _refuse_loss(plan: RestorePlan, facts: dict[str, Any], accepted: bool) -> None:
    if not plan.loses or accepted:
        return
    from barnabas.broker.restore import RestoreRefusedError

    raise RestoreRefusedError(
        "\n".join([*_losses(facts), "Nothing was changed. --accept-loss restores the cluster anyway."])
    )


def _losses(facts: dict[str, Any]) -> list[str]:
    lines = []
    if facts["empty"]:
        lines.append(f"These topics are not in the store and are restored empty: {_some(facts['empty'])}")
    lines += [
        f"{cut['topic']}-{cut['partition']} ends at offset {cut['offset']}: {cut['why']}"
        for cut in facts["cut"][:SHOWN]
    ]
    if len(facts["cut"]) > SHOWN:
        lines.append(f"and {len(facts['cut']) - SHOWN} more")
    return lines


def _some(names: list[str]) -> str:
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _describe(facts: dict[str, Any]) -> None:
    say(
        f"cluster {facts['cluster_id']}, as {facts['metadata']} has it: {count(facts['partitions'], 'partition')} of "
        f"{count(len(facts['topics']) + len(facts['adopted']), 'topic')} with {size(facts['bytes'])}"
    )
    if facts["adopted"]:
        say(f"These topics are only in the store, and are restored too: {_some(facts['adopted'])}")
    if facts["deleted"]:
        say(f"These topics were deleted, and are not restored: {_some(facts['deleted'])}")
    if facts["left_alone"]:
        say(f"Older topics with these names stay in the store, unchanged: {_some(facts['left_alone'])}")
    say(
        "Records that were not copied before the loss are not in the store and will be missing: the tail of each "
        f"partition, of untiered topics everything. {_newest(facts['newest_record_ms'])}"
    )
    for line in _losses(facts):
        say(line)


def _newest(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return "The store has no records."
    newest = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return f"The newest copied record is of {newest:%Y-%m-%d %H:%M:%S} UTC."


def _show(output: OutputFormat, facts: dict[str, Any], done: dict[str, Any]) -> None:
    if output is OutputFormat.JSON:
        show_json({**facts, "restored": bool(done), **done})
        return
    _describe(facts)
    if done:
        say(
            f"Restored as incarnation {done['incarnation']}, with {count(done['offsets'], 'committed offset')}."
        )
