"""`barnabas cluster restore`: a cluster comes back from its object store."""

from __future__ import annotations

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
        typer.Option("--data", "-d", metavar="DIR", help="One node: its folder, which must be new or empty."),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT,.../PATH",
            help="A cluster: its ZooKeeper, without a cluster.",
        ),
    ] = None,
    cluster_id: Annotated[
        str | None, typer.Option("--cluster-id", metavar="ID", help="Where the store holds several clusters.")
    ] = None,
    node_id: Annotated[
        int | None, typer.Option("--node-id", min=0, help="Of the one node [the setting's].")
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option(
            "--brokers",
            metavar="ID,ID,...",
            help="With --zookeeper: the brokers there will be [those there were].",
        ),
    ] = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on although some topics return empty, or shorter.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would come back.")] = False,
    option: StoreOptions = None,
    settings: Settings = None,
    yes: Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """All brokers are lost: bring topics, settings, ACLs, users, quotas and the offsets of groups back from the object
    store.

    Records come back as far as they were copied; nothing is downloaded. Then start the brokers, with empty folders and
    with the settings of tiered storage that they had. A cluster that was thought lost, and still runs, is fenced: it
    can copy and delete nothing any more. Needs the rights to get, put, delete and list objects, and none of a cluster.
    If it is interrupted, run it again.

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
    confirm(f"Restore cluster {plan.cluster_id}, and fence the one that was?", yes)
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
        raise typer.BadParameter("say where to: --data DIR for one node, or --zookeeper HOST:PORT/PATH")
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
    with _Bars() as bars:
        return await make_plan(store, cluster_id, bars.tell())


async def _carry_out(store: ObjectStore, plan: RestorePlan, target: RestoreTarget) -> Restored:
    from barnabas.broker.restore import restore_cluster

    with _Bars() as bars:
        return await restore_cluster(store, plan, target, bars.tell())


class _Bars:
    """One progress bar after the other."""

    def __init__(self) -> None:
        self._bar: ProgressBar | None = None
        self._done = 0

    def __enter__(self) -> _Bars:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def tell(self) -> Any:
        from barnabas.broker.restore import Tell

        return Tell(self._begin, self._one)

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


# -- what it says -------------------------------------------------------------------------------------


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


def _refuse_loss(plan: RestorePlan, facts: dict[str, Any], accepted: bool) -> None:
    if not plan.loses or accepted:
        return
    from barnabas.broker.restore import RestoreRefusedError

    raise RestoreRefusedError(
        "\n".join([*_losses(facts), "Nothing was changed. --accept-loss goes on with that."])
    )


def _losses(facts: dict[str, Any]) -> list[str]:
    lines = []
    if facts["empty"]:
        lines.append(f"These topics are not in the store and return empty: {_some(facts['empty'])}")
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
        say(f"Only the store knows these topics; they come back, too: {_some(facts['adopted'])}")
    if facts["deleted"]:
        say(f"These topics were deleted, and stay so: {_some(facts['deleted'])}")
    if facts["left_alone"]:
        say(f"Older topics of these names stay in the store, untouched: {_some(facts['left_alone'])}")
    for line in _losses(facts):
        say(line)


def _show(output: OutputFormat, facts: dict[str, Any], done: dict[str, Any]) -> None:
    if output is OutputFormat.JSON:
        show_json({**facts, "restored": bool(done), **done})
        return
    _describe(facts)
    if done:
        say(
            f"Restored as incarnation {done['incarnation']}, with {count(done['offsets'], 'committed offset')}."
        )
