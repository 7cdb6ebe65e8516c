"""Invalid SASL settings are rejected at startup with a remedy."""

from __future__ import annotations

import pytest

from barnabas.broker.security.authentication import Authentication
from barnabas.cluster.image import EMPTY_IMAGE
from barnabas.common.clock import SystemClock
from barnabas.config.broker import BrokerConfig
from barnabas.config.setting import ConfigError
from barnabas.security.authn.sasl.login import SaslLogin
from tests.support.sasl import sasl_settings

JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


class NoThreads:
    """Nothing here is run in one."""


def authentication(**settings: str) -> Authentication:
    values = {"log.dirs": "unused", **sasl_settings(), **settings}
    threads: object = NoThreads()
    return Authentication(BrokerConfig.load(values), lambda: EMPTY_IMAGE, SystemClock(), threads)  # type: ignore[arg-type]


def refusal(**settings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        authentication(**settings)
    return str(caught.value)


def test_each_listener_with_sasl_offers_its_mechanisms() -> None:
    made = authentication(**{"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN"})

    assert {name: SaslLogin(offer).mechanisms for name, offer in made.offers.items()} == {
        "SASL_PLAINTEXT": ["PLAIN"]
    }


def test_session_length_comes_from_the_most_specific_setting() -> None:
    made = authentication(
        **{
            "connections.max.reauth.ms": "3000",
            "listener.name.sasl_plaintext.connections.max.reauth.ms": "2000",
            "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "1000",
        }
    )

    sessions = {name: offered.session_ms for name, offered in made.offers["SASL_PLAINTEXT"].items()}
    assert sessions == {"PLAIN": 1000, "SCRAM-SHA-256": 2000, "SCRAM-SHA-512": 2000}


@pytest.mark.parametrize("mechanism", ["PLAYN", "plain"])
def test_unknown_mechanism_is_rejected(mechanism: str) -> None:
    text = refusal(**{"sasl.enabled.mechanisms": mechanism})

    assert f"The listener SASL_PLAINTEXT offers {mechanism} (sasl.enabled.mechanisms)" in text
    assert "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI" in text


def test_no_mechanism_is_refused() -> None:
    assert "sasl.enabled.mechanisms is empty" in refusal(**{"sasl.enabled.mechanisms": ""})


def test_plain_without_users_is_refused() -> None:
    settings = sasl_settings()
    del settings[JAAS]
    with pytest.raises(ConfigError, match=rf"no users are configured: set {JAAS}=org.apache"):
        Authentication(
            BrokerConfig.load({"log.dirs": "unused", **settings}),
            lambda: EMPTY_IMAGE,
            SystemClock(),
            NoThreads(),  # type: ignore[arg-type]
        )


@pytest.mark.parametrize(
    "text",
    [
        'PlainLoginModule required user_alice="swordfish"',
        "PlainLoginModule required user_alice=swordfish swordfish;",
        'ScramLoginModule required user_alice="swordfish";',
    ],
)
def test_a_text_that_cannot_be_read_is_not_repeated(text: str) -> None:
    message = refusal(**{JAAS: text})

    assert message.startswith(f"{JAAS} must ")
    assert "swordfish" not in message
