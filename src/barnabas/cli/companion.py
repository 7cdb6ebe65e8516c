"""Shared code of commands that also run next to a broker (`serve --registry`, `serve --console`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from barnabas.client import Address, parse_address

if TYPE_CHECKING:
    from barnabas.broker import Broker, BrokerCompanion
    from barnabas.client.security import ClientSecurity
    from barnabas.security.authz.acls import AclBinding

OPTION = "--companion"
HELP = "Set by a broker, which sends the rest over standard input."


async def beside(
    broker: Broker,
    name: str,
    user: str,
    arguments: Sequence[str],
    rights: Sequence[AclBinding],
    config: Path | None = None,
    *,
    quiet: bool = False,
    registry: str = "",
) -> BrokerCompanion:
    """A companion whose login is created by the broker or configured in `config`.

    A `quiet` one prints no ready message and logs only warnings. `registry` is the URL of the one next to the broker.
    """
    from barnabas.broker import CompanionStart
    from barnabas.broker.security import login_of
    from barnabas.client.security import read_properties

    spec, ports = broker.config.listeners[0], broker.platform.ports(broker.listeners[0])
    if config is None:
        bootstrap, settings = await login_of(broker, spec, ports, user, rights)
    else:
        settings = dict(read_properties("its configuration", config))
        addresses = (str(Address(spec.host or "127.0.0.1", port)) for port in ports)
        bootstrap = settings.get("bootstrap.servers", ",".join(addresses))
    greeting = {"bootstrap": bootstrap, "settings": settings, "quiet": quiet, "registry": registry}
    return broker.platform.companion(CompanionStart(name, [*arguments, OPTION], greeting, quiet))


class Greeting(NamedTuple):
    bootstrap: str
    security: ClientSecurity
    registry: str


def read_greeting() -> Greeting:
    """Read the broker's greeting from the pipe byte by byte, so that nothing after it is consumed."""
    import os

    from barnabas.client.security import parse_security

    line = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    if not line:
        raise typer.BadParameter("only `barnabas serve` may use this option", param_hint=OPTION)
    greeting = json.loads(line)
    if greeting.get("quiet", False):
        import logging

        logging.getLogger().setLevel(logging.WARNING)
    return Greeting(greeting["bootstrap"], parse_security(greeting["settings"]), greeting.get("registry", ""))


# Packages of the extras that a companion needs.
EXTRAS = {"registry": ("fastavro", "uvicorn", "google.protobuf"), "console": ("jinja2", "uvicorn", "pyarrow")}


def missing_packages(extra: str) -> list[str]:
    """Packages of an optional extra that are not installed."""
    return [name for name in EXTRAS[extra] if not _is_installed(name)]


def check_installed(service: str, extra: str) -> None:
    """Raise if packages of an optional extra are missing."""
    from barnabas.common.installation import extra_command

    if missing := missing_packages(extra):
        text = f"the {service} needs {', '.join(missing)}: {extra_command(extra)}"
        raise typer.BadParameter(text)


def address(text: str, option: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def log_to_stderr() -> None:
    import logging

    from barnabas.common.safe_logging import plain_lines

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    for handler in logging.root.handlers:
        handler.addFilter(plain_lines)


def _is_installed(name: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False
