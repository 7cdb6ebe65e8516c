"""The options of `barnabas mirror run`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Reaction(StrEnum):
    STOP = "stop"
    FOLLOW = "follow"


Sources = Annotated[
    list[str],
    typer.Option("--from", metavar="[ALIAS=]HOST:PORT", help="A cluster to mirror; may be repeated."),
]
Target = Annotated[
    str,
    typer.Option(
        "--to", "--bootstrap-server", "-b", envvar="BARNABAS_BOOTSTRAP", metavar="HOST:PORT", help="Where to."
    ),
]
Topics = Annotated[str, typer.Option("--topics", metavar="RE2", help="Only topics whose whole name matches.")]
Groups = Annotated[str, typer.Option("--groups", metavar="RE2", help="Only groups whose whole name matches.")]
Rename = Annotated[str, typer.Option("--rename", help="Names in the target, as '{alias}.{topic}'.")]
Merge = Annotated[
    bool, typer.Option("--merge", help="Several sources into the same topics, with offsets of their own.")
]
KeepDeleted = Annotated[
    bool, typer.Option("--keep-deleted", help="Keep what the source deletes; the target's retention decides.")
]
OnTruncation = Annotated[
    Reaction,
    typer.Option("--on-truncation", help="When the source has lost records: stop, or cut the target too."),
]
OnGap = Annotated[
    Reaction,
    typer.Option(
        "--on-gap", help="When the source has deleted records too early: stop, or begin behind them."
    ),
]
NoAcls = Annotated[bool, typer.Option("--no-acls", help="Leave the ACLs of the target alone.")]
ReplicationFactor = Annotated[
    int, typer.Option("--replication-factor", help="Of new topics. [the target's default]")
]
Every = Annotated[
    str,
    typer.Option("--every", metavar="TIME", help="How often topics, settings, ACLs and groups are compared."),
]
FromConfigs = Annotated[
    list[Path] | None,
    typer.Option(
        "--from-config", metavar="FILE", help="TLS and SASL of the sources: one for all, or one each."
    ),
]
Metrics = Annotated[
    str | None, typer.Option("--metrics", metavar="HOST:PORT", help="Serve /metrics for Prometheus.")
]
