"""Values that stand elsewhere, written as for Kafka's config providers: a secret need not be in a query or a plan.

${env:NAME}        an environment variable
${file:PATH:KEY}   a setting in a properties file
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from barnabas.client.security.settings import SecuritySettingError
from barnabas.config.properties import parse_properties
from barnabas.config.setting import ConfigError

_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")


def resolve(setting: str, value: str, environment: Mapping[str, str] | None = None) -> str:
    """The value with every reference replaced by what it names."""
    variables = os.environ if environment is None else environment

    def found(match: re.Match[str]) -> str:
        kind, where = match.groups()
        return _variable(setting, where, variables) if kind == "env" else _in_file(setting, where)

    return _REFERENCE.sub(found, value)


def reference_to(path: Path, key: str) -> str:
    return f"${{file:{path.resolve()}:{key}}}"


def _variable(setting: str, name: str, variables: Mapping[str, str]) -> str:
    if name not in variables:
        raise SecuritySettingError(setting, f"names the environment variable {name}, which is not set")
    return variables[name]


def _in_file(setting: str, where: str) -> str:
    path, _, key = where.rpartition(":")
    values = read_properties(setting, Path(path))
    if key not in values:
        raise SecuritySettingError(
            setting, f"names {key!r} of {path}, and there is no such setting in that file"
        )
    return values[key]


def read_properties(setting: str, path: Path) -> dict[str, str]:
    """A properties file; `setting` is what named it."""
    try:
        return parse_properties(path.read_text())
    except OSError as error:
        raise SecuritySettingError(setting, f"names {path}, which cannot be read: {error.strerror}") from None
    except (ConfigError, UnicodeDecodeError):
        raise SecuritySettingError(setting, f"names {path}, which is no properties file") from None
