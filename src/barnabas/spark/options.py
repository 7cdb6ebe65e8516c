"""The options of `format("barnabas")`, each declared once: name, purpose, and the sides that accept it.

Names and meanings are those of Spark's Kafka connector, so that only the format of a query changes. As in Spark, names
are case-insensitive. An unknown option is an error that suggests the closest name: a misspelt `startingOffset` must not
read a topic from the wrong end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from barnabas.client.schemas import (
    RegistryAccount,
    check_registry_setting,
    is_registry_setting,
    parse_registry,
)
from barnabas.common.suggestions import closest
from barnabas.security.authn import SecuritySettingError
from barnabas.spark.client_settings import CLIENT_PREFIX, KNOWN, SparkClientSettings, check_client_setting
from barnabas.spark.option_catalogue import OPTIONS, Side

STORE_PREFIX = "remote."


class OptionError(ValueError):
    """An option that is unknown, missing, or has an invalid value."""


# Set by Spark itself; not for data sources.
_SPARKS_OWN = frozenset({"path", "paths", "queryname", "outputmode", "triggerinterval"})


class Options:
    """The given options, checked for unknown names; values are checked when read."""

    def __init__(self, given: Mapping[str, str], side: Side) -> None:
        self._side = side
        self._values = {name.lower(): value for name, value in given.items()}
        self._names = {option.name.lower(): option for option in OPTIONS if side in option.sides}
        for name in given:
            self._check_name(name)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        """The given value, or the default; None if there is neither."""
        value = self._values.get(name.lower())
        return self._names[name.lower()].default if value is None else value.strip()

    def internal(self, name: str) -> str | None:
        """An option that Barnabas gives to itself; its name begins with two underscores."""
        return self._values.get(name)

    def require(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise OptionError(f"option {name!r} must be given")
        return value

    def flag(self, name: str) -> bool:
        value = (self.text(name) or "false").lower()
        if value not in ("true", "false"):
            raise OptionError(f"option {name!r} must be true or false, not {value!r}")
        return value == "true"

    def number(self, name: str, at_least: int = 0) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            raise OptionError(f"option {name!r} must be a whole number, not {value!r}") from None
        if number < at_least:
            raise OptionError(f"option {name!r} must be at least {at_least}, not {number}")
        return number

    def choice(self, name: str, choices: Iterable[str]) -> str | None:
        """One of several words, spelled as in `choices`."""
        value = self.text(name)
        if value is None:
            return None
        by_lower = {choice.lower(): choice for choice in choices}
        if value.lower() not in by_lower:
            raise OptionError(f"option {name!r} must be one of {', '.join(by_lower.values())}, not {value!r}")
        return by_lower[value.lower()]

    def client_settings(self) -> SparkClientSettings:
        """The parsed `kafka.*` options."""
        return SparkClientSettings.parse(dict(self.prefixed(CLIENT_PREFIX)))

    @property
    def is_registered(self) -> bool:
        """True if values begin with a schema id although their fields are given."""
        return (self._values.get("value.registry") or "false").lower() != "false"

    def registry(self) -> RegistryAccount:
        """The registry that options name, or that the cluster runs; OptionError if there is none."""
        given = self._values.get("value.registry", "")
        with _as_option():
            account = parse_registry(self._values, None if given.lower() in ("true", "false") else given)
        account = account or RegistryAccount()
        if not account.is_located and self.client_text("bootstrap.servers"):
            account = _discovered(self.client_settings(), account) or account
        if not account.is_located:
            raise OptionError(
                "no schema registry: set the option 'schema.registry.url'; the cluster names none"
            )
        return account

    def client_text(self, name: str) -> str | None:
        return self._values.get(CLIENT_PREFIX + name)

    def prefixed(self, prefix: str) -> Iterator[tuple[str, str]]:
        """(name without the prefix, value) of all options that have it."""
        for name, value in self._values.items():
            if name.startswith(prefix):
                yield name.removeprefix(prefix), value

    def _check_name(self, name: str) -> None:
        lower = name.lower()
        if lower.startswith(CLIENT_PREFIX):
            check_client_setting(lower.removeprefix(CLIENT_PREFIX), self._side)
        elif is_registry_setting(lower):
            with _as_option():
                check_registry_setting(lower)
        elif lower.startswith(STORE_PREFIX) and self._side == "source":
            return  # obstore rejects unknown options
        elif lower not in self._names and lower not in _SPARKS_OWN and not lower.startswith("__"):
            raise OptionError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        known = {option.name.lower(): option.name for option in self._names.values()}
        if name.lower() in KNOWN:
            return f"unknown option {name!r}: settings of the client need a prefix, {CLIENT_PREFIX + name!r}"
        match = closest(name.lower(), known)
        hint = (
            f"; did you mean {known[match]!r}?"
            if match is not None
            else f"; options: {', '.join(known.values())}"
        )
        return f"unknown option {name!r} of the {self._side}{hint}"


def _discovered(settings: SparkClientSettings, account: RegistryAccount) -> RegistryAccount | None:
    from barnabas.client.schemas import discover_registry
    from barnabas.client.schemas.client import RegistryError
    from barnabas.spark.broker_link import link_to

    link = link_to(**settings.link)
    try:
        return link.run(discover_registry(link.client, account))
    except RegistryError as error:
        raise OptionError(str(error)) from None


@contextmanager
def _as_option() -> Iterator[None]:
    """Report an invalid setting of the registry as an invalid option."""
    try:
        yield
    except SecuritySettingError as error:
        raise OptionError(f"option {error.setting!r} {error.problem}") from None


def parse_duration_ms(text: str) -> int:
    """Milliseconds of Spark's durations: `15m`, `30s`, `500ms`; a plain number is milliseconds."""
    units = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = text[len(text.rstrip("abcdefghijklmnopqrstuvwxyz")) :] or "ms"
    if unit not in units or not digits.isdigit():
        raise OptionError(f"not a valid duration: {text!r} (a number and one of {', '.join(units)})")
    return int(digits) * units[unit]
