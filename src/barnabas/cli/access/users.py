"""`barnabas users`: users with SCRAM credentials."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Output,
    OutputFormat,
    Settings,
    Yes,
    confirm,
    parse_settings,
)
from barnabas.cli.output import say, show_done, show_json, show_rows

if TYPE_CHECKING:
    from barnabas.cli.access.user_stores import UserStore

app = typer.Typer(help="Manage users that log in with a password (SCRAM).", no_args_is_help=True)


class ScramMechanisms(StrEnum):
    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"
    BOTH = "both"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
MechanismOption = Annotated[
    ScramMechanisms,
    typer.Option("--mechanism", "-m", help="The SCRAM mechanisms that the user can log in with."),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="Read the password from the first line of this file; - is standard input. [generated and printed once]",
    ),
]
Iterations = Annotated[
    int,
    typer.Option(min=4096, max=16_384, help="SCRAM iterations. More make guessing the password slower."),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        "-d",
        metavar="DIR",
        help="Instead of a broker: the data folder of a single node that is stopped, or a new one.",
    ),
]
ZooKeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        "-z",
        metavar="HOST:PORT,.../PATH",
        help="Instead of a broker: the ZooKeeper of a cluster. All its brokers must be stopped.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="The brokers' server.properties, for --zookeeper or --data."
    ),
]


@app.command()
def create(
    name: Name,
    mechanism: MechanismOption = ScramMechanisms.BOTH,
    password_file: PasswordFile = None,
    iterations: Iterations = 4096,
    data: Data = None,
    zookeeper: ZooKeeper = None,
    config: ConfigFile = None,
    settings: Settings = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Create a user. Without --password-file a password is generated and printed once.

    The password is neither sent to a broker nor stored: brokers get keys that are derived from it. Use --data or
    --zookeeper, while no broker runs, to create the first users and the users of inter-broker connections.

    Examples:

      barnabas users create alice

      barnabas users create broker --data ./data --password-file broker.password

      barnabas users create admin --zookeeper 127.0.0.1:2181/barnabas --config server.properties
    """
    store = _store(bootstrap, data, zookeeper, config, settings)
    store.check_keeps_secrets()
    if any(user.name == name for user in store.users([name])):
        from barnabas.common.errors import ErrorCode, KafkaError

        raise KafkaError(
            ErrorCode.DUPLICATE_RESOURCE,
            f"user {name} exists already; `barnabas users password {name}` changes its password",
        )
    _set(store, name, mechanism, password_file, iterations, output, "created")


@app.command()
def password(
    name: Name,
    mechanism: MechanismOption = ScramMechanisms.BOTH,
    password_file: PasswordFile = None,
    iterations: Iterations = 4096,
    data: Data = None,
    zookeeper: ZooKeeper = None,
    config: ConfigFile = None,
    settings: Settings = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Change a user's password. Open connections stay open until they reauthenticate, unless
    barnabas.credential.change.ends.sessions is true.

    Examples:

      barnabas users password alice

      pass show kafka/alice | barnabas users password alice --password-file -
    """
    store = _store(bootstrap, data, zookeeper, config, settings)
    store.check_keeps_secrets()
    if not store.users([name]):
        from barnabas.common.errors import ErrorCode, KafkaError

        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND,
            f"user {name} does not exist; create it with `barnabas users create {name}`",
        )
    _set(store, name, mechanism, password_file, iterations, output, "changed")


def _set(
    store: UserStore,
    name: str,
    mechanism: ScramMechanisms,
    password_file: Path | None,
    iterations: int,
    output: OutputFormat,
    done: str,
) -> None:
    import secrets

    from barnabas.security.authn import ScramMechanism

    mechanisms = [each for each in ScramMechanism if mechanism in (ScramMechanisms.BOTH, each.sasl_name)]
    value = None if password_file is None else _read_password(password_file)
    made = value or secrets.token_urlsafe(18)
    store.set_password(name, made, mechanisms, iterations)
    facts: dict[str, Any] = {"user": name, "mechanisms": [each.sasl_name for each in mechanisms]}
    if value is None:
        facts["password"] = made
    if output is OutputFormat.JSON:
        show_json(facts)
    elif value is None:
        say(f"User {name} {done}. The password is shown only once:")
        print(made)
    else:
        say(f"User {name} {done}.")


def _read_password(path: Path) -> str:
    import sys

    lines = (sys.stdin.read() if str(path) == "-" else path.read_text()).splitlines()
    if not lines or not lines[0]:
        raise typer.BadParameter(
            "the first line must be the password, and it is empty", param_hint="--password-file"
        )
    return lines[0]


@app.command("list")
def list_users(
    data: Data = None,
    zookeeper: ZooKeeper = None,
    config: ConfigFile = None,
    settings: Settings = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List the users and their SCRAM mechanisms.

    Example:

      barnabas users list
    """
    rows = [
        {
            "user": user.name,
            "mechanisms": [each.sasl_name for each in user.iterations],
            "iterations": list(user.iterations.values()),
        }
        for user in _store(bootstrap, data, zookeeper, config, settings).users()
    ]
    show_rows(output, rows, ("user", "mechanisms", "iterations"), empty="No users.")


@app.command()
def delete(
    name: Name,
    data: Data = None,
    zookeeper: ZooKeeper = None,
    config: ConfigFile = None,
    settings: Settings = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Delete a user's credentials. Its ACLs and quotas stay: remove them with `acls remove` and `quotas remove`.

    Example:

      barnabas users delete alice
    """
    confirm(f"Delete user {name}?", yes)
    _store(bootstrap, data, zookeeper, config, settings).delete(name)
    show_done(output, f"User {name} deleted.", {"user": name})


def _store(
    bootstrap: str,
    data: Path | None,
    zookeeper: str | None,
    config: Path | None,
    settings: list[str] | None,
) -> UserStore:
    from barnabas.cli.access.user_stores import OfflineUsers, OnlineUsers
    from barnabas.config.broker import BrokerConfig
    from barnabas.config.properties import parse_properties

    if data is None and zookeeper is None:
        if config is not None or settings:
            raise typer.BadParameter("--config and --set need --data or --zookeeper")
        return OnlineUsers(bootstrap)
    if data is not None and zookeeper is not None:
        raise typer.BadParameter("give --data for a single node or --zookeeper for a cluster, not both")
    value = {} if config is None else parse_properties(config.read_text(encoding="utf-8"))
    value |= parse_settings(settings)
    if data is not None:
        value["log.dirs"] = str(data)
    if zookeeper is not None:
        value["zookeeper.connect"] = zookeeper
    return OfflineUsers(BrokerConfig.load(value))
