"""The commands of `barnabas`, put together."""

from __future__ import annotations

import os
import sys
from typing import Any
import typer
from typer.core import TyperGroup
from barnabas.cli.options import add_to_commands

import os
import sys

import typer

from barnabas.cli import audit, configs, console, groups, perf, registry, serve, topics, transactions
from barnabas.cli.access import acls, quotas, tokens, users
from barnabas.cli.cluster import commands as cluster
from barnabas.cli.cluster import zookeeper
from barnabas.cli.connect import commands as connect
from barnabas.cli.ingest import commands as ingest
from barnabas.cli.log import commands as log
from barnabas.cli.mirror import commands as mirror
from barnabas.cli.options import Output, OutputFormat
from barnabas.cli.output import show_json
from barnabas.cli.pipeline import commands as pipeline
from barnabas.cli.queue import commands as queue
from barnabas.cli.records import consume, produce
from barnabas.cli.tables import sql
from barnabas.cli.tiering import commands as tier
from barnabas.cli.tiering import snapshots


# -- The command group at the top: turns expected errors into messages and exit codes ------------------

INTERRUPTED = 130  # what shells say for a program that Ctrl-C has ended


class FriendlyGroup(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        add_to_commands(self)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # `barnabas consume ... | head`: the reader has enough. Python would complain again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            code = _report(error)
            if code is None:
                raise
            raise typer.Exit(code) from error


def _report(error: Exception) -> int | None:
    """Print what a person can use and return the exit code; None for usage errors and bugs."""
    from barnabas.cli.failures import explain

    explained = explain(error)
    if explained is None:
        return None
    text, code = explained
    typer.echo(f"Error: {text}", err=True)
    return code



EPILOG = (
    "First steps: `barnabas serve --data ./data`, then in another window "
    "`echo hello | barnabas produce greetings` and `barnabas consume greetings --from beginning --exit-at-end`."
)

app = typer.Typer(
    name="barnabas",
    cls=FriendlyGroup,
    help="Barnabas: a Kafka that installs with pip.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,  # rich would double the time that --help takes
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

app.command("serve")(serve.serve)
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.command("sql")(sql.sql)
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(queue.app, name="queue")
app.add_typer(configs.app, name="configs")
app.add_typer(log.app, name="log")
app.add_typer(perf.app, name="perf")
app.add_typer(transactions.app, name="transactions")
app.add_typer(users.app, name="users")
app.add_typer(acls.app, name="acls")
app.add_typer(quotas.app, name="quotas")
app.add_typer(tokens.app, name="tokens")
app.add_typer(registry.app, name="registry")
app.add_typer(console.app, name="console")
app.add_typer(cluster.app, name="cluster")
app.add_typer(tier.app, name="tier")
app.add_typer(snapshots.app, name="snapshot")
app.add_typer(audit.app, name="audit")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(ingest.app, name="ingest")
app.add_typer(mirror.app, name="mirror")
app.add_typer(connect.app, name="connect")
app.add_typer(zookeeper.app, name="zookeeper")


@app.command()
def version(output: Output = OutputFormat.TABLE) -> None:
    """Show which Barnabas this is."""
    import platform

    from barnabas import __version__

    facts = {"version": __version__, "python": platform.python_version(), "system": platform.system()}
    if output is OutputFormat.JSON:
        show_json(facts)
    else:
        print(f"barnabas {facts['version']} (Python {facts['python']}, {facts['system']})")


def main() -> None:
    if "_BARNABAS_COMPLETE" not in os.environ:
        leave_out_others(app, sys.argv[1:])
    app(prog_name="barnabas")


def leave_out_others(whole: typer.Typer, arguments: list[str]) -> None:
    """To make the options of all hundred commands takes 0.1 s: those of the command that is asked for will do."""
    name = arguments[0] if arguments else ""
    groups = [each for each in whole.registered_groups if each.name == name]
    commands = [each for each in whole.registered_commands if each.name == name]
    if groups or commands:
        whole.registered_groups = groups
        # With a single command typer would want no name.
        whole.registered_commands = [
            *commands,
            *(each for each in whole.registered_commands if each.name is None),
        ]


if __name__ == "__main__":
    main()
