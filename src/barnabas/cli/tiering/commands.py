"""`barnabas tier`: what of the topics lies in an object store, and whether it is sound."""

from __future__ import annotations

import typer

from barnabas.cli.tiering import quarantine as tier_quarantine
from barnabas.cli.tiering import repair as tier_repair
from barnabas.cli.tiering import status as tier_status
from barnabas.cli.tiering import verify as tier_verify

app = typer.Typer(help="See what lies in an object store, check and mend it.", no_args_is_help=True)

app.command("status")(tier_status.status)
app.command("verify")(tier_verify.verify)
app.command("repair")(tier_repair.repair)
app.command("quarantine")(tier_quarantine.quarantine)
