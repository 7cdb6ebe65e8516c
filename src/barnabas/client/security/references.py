"""Values that stand elsewhere, written as for Kafka's config providers: a secret need not be in a query or a plan.

${env:NAME}        an environment variable
${file:PATH:KEY}   a setting in a properties file

They are looked up only for who may read the environment and the files anyway: the author of a file of settings on this
machine (`trusted`). In settings from elsewhere (options of Spark, a program that takes settings from its users) they
are refused, unless the owner of the process allows them: `BARNABAS_REFERENCES=env,file` in its environment.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from barnabas.config.properties import parse_properties
from barnabas.config.setting import ConfigError
from barnabas.security.secret import SecuritySettingError

VARIABLE = "BARNABAS_REFERENCES"
_REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")


def resolve(setting: str, value: str, *, trusted: bool = False) -> str:
    """The value with every reference replaced by what it names."""

    def found(match: re.Match[str]) -> str:
        kind, where = match.groups()
        if not trusted and kind not in _allowed():
            problem = (
                f"refers to {match.group()}, which is not looked up for settings from a program: give the value "
                f"itself, or set {VARIABLE}=env,file in the environment of the process that connects"
            )
            raise SecuritySettingError(setting, problem)
        return _variable(setting, where) if kind == "env" else _in_file(setting, where)

    return _REFERENCE.sub(found, value)


def reference_to(path: Path, key: str) -> str:
    return f"${{file:{path.resolve()}:{key}}}"


def _allowed() -> set[str]:
    return {kind.strip() for kind in os.environ.get(VARIABLE, "").split(",")}


def _variable(setting: str, name: str) -> str:
    if name not in os.environ:
        raise SecuritySettingError(setting, f"names the environment variable {name}, which is not set")
    return os.environ[name]


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
