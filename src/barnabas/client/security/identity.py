"""SASL settings by Kafka's names, from sasl.jaas.config or from separate settings."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.security.settings import Mechanism, SaslSettings, TokenEndpoint, TokenProvider
from barnabas.security import problem_with
from barnabas.security.authn import SETTING as JAAS
from barnabas.security.authn import Secret, SecuritySettingError, parse_jaas

_MODULES = {
    Mechanism.PLAIN: "PlainLoginModule",
    Mechanism.SCRAM_SHA_256: "ScramLoginModule",
    Mechanism.SCRAM_SHA_512: "ScramLoginModule",
    Mechanism.OAUTHBEARER: "OAuthBearerLoginModule",
}
# JAAS option -> setting.
_OPTIONS = {
    "username": "sasl.username",
    "password": "sasl.password",
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_EXTENSION = "extension_"
_OF_BROKERS = "user_"  # in a broker's JAAS configuration: users that it accepts
_TOKEN, _ENDPOINT = "sasl.oauthbearer.token", "sasl.oauthbearer.token.endpoint.url"
_HANDLER = "sasl.login.callback.handler.class"
_OUR_HANDLER = "OAuthBearerLoginCallbackHandler"


def parse_sasl(settings: Mapping[str, str], token: TokenProvider | None = None) -> SaslSettings:
    mechanism = _mechanism(settings)
    handler = settings.get(_HANDLER, "")
    if handler and not (mechanism is Mechanism.OAUTHBEARER and handler.endswith(_OUR_HANDLER)):
        raise SecuritySettingError(_HANDLER, "names a Java class, which cannot be run here")
    chosen = {**settings, **_from_jaas(settings, mechanism)}
    if mechanism is Mechanism.OAUTHBEARER:
        return SaslSettings(mechanism, token=token or _token(chosen), extensions=_extensions(chosen))
    for name in ("sasl.username", "sasl.password"):
        if not chosen.get(name):
            raise SecuritySettingError(name, f"is missing, and {mechanism} needs it (or give {JAAS})")
    return SaslSettings(mechanism, chosen["sasl.username"], Secret(chosen["sasl.password"]))


def _mechanism(settings: Mapping[str, str]) -> Mechanism:
    word = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or ""
    if word.strip().upper() == "GSSAPI":
        problem = (
            f"GSSAPI (Kerberos) is not supported; the broker may also offer one of {', '.join(Mechanism)}"
        )
        raise SecuritySettingError("sasl.mechanism", problem)
    try:
        return Mechanism(word.strip().upper())
    except ValueError:
        what = f", not {word!r}" if word else " (Kafka's default, GSSAPI, is not supported)"
        raise SecuritySettingError("sasl.mechanism", f"must be one of {', '.join(Mechanism)}{what}") from None


def _from_jaas(settings: Mapping[str, str], mechanism: Mechanism) -> dict[str, str]:
    """JAAS options as settings."""
    if not settings.get(JAAS, "").strip():
        return {}
    module = parse_jaas(settings[JAAS])
    if module.name != _MODULES[mechanism]:
        raise SecuritySettingError(JAAS, f"must name {_MODULES[mechanism]}, which belongs to {mechanism}")
    found = {}
    for name, value in module.options.items():
        if name in _OPTIONS:
            found[_OPTIONS[name]] = value
        elif name.startswith(_EXTENSION):
            found[name] = value
        elif name != "debug" and not name.startswith(_OF_BROKERS):
            raise SecuritySettingError(JAAS, f"has the option {name!r}, which is not supported")
    return found


def _token(settings: Mapping[str, str]) -> Secret | TokenEndpoint:
    if settings.get(_TOKEN):
        return Secret(settings[_TOKEN])
    url = settings.get(_ENDPOINT, "").strip()
    problem = problem_with(url) if url else f"or {_TOKEN} must be given for OAUTHBEARER"
    if problem is not None:
        raise SecuritySettingError(_ENDPOINT, problem)
    name = _client_setting(settings, "id")
    secret = _client_setting(settings, "secret")
    if not url.startswith("file:") and (not name or not secret):
        missing = "secret" if name else "id"
        raise SecuritySettingError(
            f"sasl.oauthbearer.client.{missing}", f"is missing, and {_ENDPOINT} needs it"
        )
    return TokenEndpoint(url, name, Secret(secret), settings.get("sasl.oauthbearer.scope") or None)


def _client_setting(settings: Mapping[str, str], name: str) -> str:
    """The setting by Kafka's or librdkafka's name."""
    kafkas = settings.get(f"sasl.oauthbearer.client.credentials.client.{name}")
    return kafkas or settings.get(f"sasl.oauthbearer.client.{name}") or ""


def _extensions(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """From JAAS (`extension_name`) and from librdkafka's `name=value,name=value`."""
    found = {
        name.removeprefix(_EXTENSION): value
        for name, value in settings.items()
        if name.startswith(_EXTENSION)
    }
    listed = settings.get("sasl.oauthbearer.extensions", "")
    for pair in filter(None, (part.strip() for part in listed.split(","))):
        name, equals, value = pair.partition("=")
        if not equals or not name.isalpha():
            raise SecuritySettingError(
                "sasl.oauthbearer.extensions", "must be NAME=VALUE, separated by commas"
            )
        found[name] = value
    return tuple(sorted(found.items()))
