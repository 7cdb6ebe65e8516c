"""Authenticators that others have written: checks of PLAIN's passwords, found as entry points of installed packages.

Which one is used stands in the server's own file (`barnabas.plain.authenticator`), and only what is installed and says
of itself that it is one can be named there. It cannot be changed over the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path

from barnabas.config.properties import parse_properties
from barnabas.config.setting import ConfigError
from barnabas.security.authn.sasl.plain import PasswordCheck
from barnabas.security.secret import SecuritySettingError

GROUP = "barnabas.authenticators"
SETTING = "barnabas.plain.authenticator"

Factory = Callable[[Mapping[str, str]], PasswordCheck]
"""From the options in the file of `barnabas.plain.authenticator.config` to a check of passwords."""


def load_authenticator(name: str, config: str | None) -> PasswordCheck:
    """ConfigError when there is none of that name, or its options are wrong."""
    installed = {each.name: each for each in entry_points(group=GROUP)}
    if name not in installed:
        known = ", ".join(sorted(installed)) or "none"
        raise ConfigError(
            f"{SETTING} is {name}, and no installed package has an authenticator of that name ({GROUP}): "
            f"there is {known}"
        )
    make: Factory = installed[name].load()
    try:
        return make(_options(config))
    except SecuritySettingError as error:
        raise ConfigError(f"The authenticator {name} cannot be used: {error}") from None
    except OSError as error:
        raise ConfigError(f"The authenticator {name} cannot be used: {error.strerror or error}") from None


def _options(config: str | None) -> dict[str, str]:
    if config is None:
        return {}
    try:
        return parse_properties(Path(config).read_text())
    except OSError as error:
        raise ConfigError(
            f"{SETTING}.config names {config}, which cannot be read: {error.strerror}"
        ) from None
