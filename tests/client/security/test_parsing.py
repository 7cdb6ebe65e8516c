"""Client settings by Kafka's names, in both notations, and errors of invalid ones."""

import pickle
from pathlib import Path

import pytest

from barnabas.client.security.parsing import is_security_setting, parse_security
from barnabas.client.security.settings import (
    PLAINTEXT,
    SECRET,
    UNDERSTOOD,
    Mechanism,
    SecurityProtocol,
    TokenEndpoint,
)
from barnabas.security.authn.credentials import Secret, SecuritySettingError
from barnabas.security.tls.stores import CertificateStore

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="hush";'
JAVAS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}
LIBRDKAFKAS = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "hush",
}
OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


@pytest.fixture(autouse=True)
def _without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner of pipelines gives it to its process, in which tests of pipelines may have run."""
    monkeypatch.delenv("BARNABAS_REFERENCES", raising=False)


def test_both_families_mean_the_same() -> None:
    assert parse_security(JAVAS) == parse_security(LIBRDKAFKAS)


def test_a_name_and_a_password_are_understood() -> None:
    security = parse_security(JAVAS)

    assert security.protocol is SecurityProtocol.SASL_SSL
    assert security.sasl is not None
    assert security.sasl.mechanism is Mechanism.SCRAM_SHA_512
    assert (security.sasl.username, security.sasl.password) == ("alice", Secret("hush"))


def test_nothing_given_is_plaintext() -> None:
    assert parse_security({"bootstrap.servers": "h:1", "acks": "all"}) == PLAINTEXT
    assert parse_security({"security.protocol": "PLAINTEXT"}) == PLAINTEXT


def test_files_of_both_families_are_understood() -> None:
    javas = {"ssl.truststore.location": "t", "ssl.truststore.password": "a", "ssl.keystore.location": "k"}
    remote = {"ssl.ca.location": "t", "ssl.certificate.location": "c", "ssl.key.location": "k"}

    tls = parse_security({"security.protocol": "SSL", **javas}).tls
    assert tls is not None
    assert tls.authorities == CertificateStore("ssl.truststore.location", "t", password=Secret("a"))
    assert (tls.certificate, tls.key) == (CertificateStore("ssl.keystore.location", "k"), None)

    tls = parse_security({"security.protocol": "SSL", **remote}).tls
    assert tls is not None
    assert tls.authorities == CertificateStore("ssl.ca.location", "t")
    assert (tls.certificate, tls.key) == (
        CertificateStore("ssl.certificate.location", "c"),
        CertificateStore("ssl.key.location", "k"),
    )


def test_texts_in_the_settings_themselves_are_understood() -> None:
    settings = {
        "ssl.truststore.certificates": "A\\nB",
        "ssl.keystore.certificate.chain": "C",
        "ssl.keystore.key": "K",
    }
    tls = parse_security({"security.protocol": "SSL", **settings}).tls

    assert tls is not None
    assert tls.authorities == CertificateStore("ssl.truststore.certificates", text=Secret("A\nB"))
    assert tls.certificate == CertificateStore("ssl.keystore.certificate.chain", text=Secret("C"))
    assert tls.key == CertificateStore("ssl.keystore.key", text=Secret("K"))


@pytest.mark.parametrize(
    ("word", "checked"), [("https", True), ("HTTPS", True), ("", False), ("none", False)]
)
def test_host_names_are_checked_unless_switched_off(word: str, checked: bool) -> None:
    settings = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": word}
    tls = parse_security(settings).tls

    assert tls is not None
    assert tls.check_host is checked


def test_a_token_endpoint_is_understood_in_three_spellings() -> None:
    url = {"sasl.oauthbearer.token.endpoint.url": "https://id/token", "sasl.oauthbearer.scope": "kafka"}
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    jaas = f'{module} clientId="me" clientSecret="hush" extension_logicalCluster="lkc-1";'
    client = "sasl.oauthbearer.client"
    ours = TokenEndpoint("https://id/token", "me", Secret("hush"), "kafka")
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"

    spellings = [
        {"sasl.jaas.config": jaas, "sasl.login.callback.handler.class": handler},
        {
            f"{client}.id": "me",
            f"{client}.secret": "hush",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
        },
        {f"{client}.credentials.client.id": "me", f"{client}.credentials.client.secret": "hush"},
    ]
    parsed = [parse_security({**OAUTH, **url, **spelling}).sasl for spelling in spellings]

    assert [sasl.token for sasl in parsed if sasl is not None] == [ours, ours, ours]
    assert parsed[0] is not None
    assert parsed[0].extensions == (("logicalCluster", "lkc-1"),)
    assert parsed[0] == parsed[1]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"security.protocol": "TLS"}, "security.protocol must be one of PLAINTEXT, SSL"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism has no effect unless security.protocol says"),
        ({"ssl.ca.location": "x"}, "ssl.ca.location has no effect unless"),
        (
            {"security.protocol": "SSL", "ssl.truststore.locaton": "x"},
            "did you mean ssl.truststore.location?",
        ),
        ({"security.protocol": "SSL", "ssl.key.location": "k"}, "without a certificate"),
        ({"security.protocol": "SSL", "ssl.certificate.location": "c"}, "without its key"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "BKS"}, "must be PEM or PKCS12"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "TLSv1.2 and TLSv1.3"),
        ({"security.protocol": "SSL", "ssl.engine.factory.class": "x.Y"}, "Java class"),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "a", "ssl.truststore.location": "b"},
            "are mutually exclusive",
        ),
        ({**JAVAS, "sasl.mechanism": "GSSAPI"}, r"GSSAPI \(Kerberos\) is not supported"),
        ({**JAVAS, "sasl.mechanism": ""}, "sasl.mechanism must be one of PLAIN, SCRAM-SHA-256"),
        ({**JAVAS, "sasl.mechanism": "PLAIN"}, "sasl.jaas.config must name PlainLoginModule"),
        ({**LIBRDKAFKAS, "sasl.password": ""}, "sasl.password is missing"),
        (
            {**JAVAS, "sasl.jaas.config": JAAS.replace("username", "tokenauth")},
            "'tokenauth', which is not supported",
        ),
        ({**JAVAS, "sasl.login.callback.handler.class": "my.Handler"}, "Java class"),
        (
            {**JAVAS, "sasl.password": "${env:NOT_SET_HERE}"},
            "which is not resolved for settings from a program",
        ),
        (OAUTH, "sasl.oauthbearer.token must be given"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "id/token"}, "must be an https address"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "https://id"}, "client.id is missing"),
    ],
)
def test_wrong_setting_is_named_with_a_remedy(settings: dict[str, str], text: str) -> None:
    with pytest.raises(SecuritySettingError, match=text) as caught:
        parse_security(settings)
    assert "hush" not in str(caught.value)


def test_java_tuning_options_are_accepted() -> None:
    assert parse_security({**JAVAS, "ssl.protocol": "TLSv1.3", "sasl.kerberos.service.name": "kafka"})


def test_explicit_protocol_leaves_unrelated_settings_alone() -> None:
    assert parse_security({**LIBRDKAFKAS, "security.protocol": "PLAINTEXT"}) == PLAINTEXT


def test_values_may_be_in_the_environment_or_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hush")
    (tmp_path / "client.properties").write_text(
        "jaas=" + JAAS.replace("hush", "${env:KAFKA_PASSWORD}") + "\n"
    )
    of_file = {**JAVAS, "sasl.jaas.config": JAAS.replace("hush", "${env:KAFKA_PASSWORD}")}

    assert parse_security(of_file, references=True) == parse_security(JAVAS)
    referred = {**LIBRDKAFKAS, "sasl.password": "${file:" + str(tmp_path / "client.properties") + ":pw}"}
    with pytest.raises(SecuritySettingError, match="not in that file"):
        parse_security(referred, references=True)
    (tmp_path / "client.properties").write_text("pw=hush\n")
    assert parse_security(referred, references=True) == parse_security(LIBRDKAFKAS)


@pytest.mark.parametrize("allowed", [None, "file"])
def test_cve_2024_31141_a_program_that_takes_settings_from_others_gives_nothing_away(
    allowed: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hush")
    if allowed:
        monkeypatch.setenv("BARNABAS_REFERENCES", allowed)
    with pytest.raises(SecuritySettingError, match=r"refers to .*, which is not resolved") as refusal:
        parse_security({**LIBRDKAFKAS, "sasl.password": "${env:KAFKA_PASSWORD}"})
    assert "hush" not in str(refusal.value)


def test_the_owner_of_a_process_may_allow_references(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hush")
    monkeypatch.setenv("BARNABAS_REFERENCES", "file, env")
    assert parse_security({**LIBRDKAFKAS, "sasl.password": "${env:KAFKA_PASSWORD}"}) == parse_security(
        LIBRDKAFKAS
    )


def test_secrets_do_not_show() -> None:
    secret = {
        **JAVAS,
        "ssl.keystore.key": "hush",
        "ssl.keystore.certificate.chain": "hush",
        "ssl.key.password": "hush",
    }
    oauth = {**OAUTH, "sasl.oauthbearer.token": "hush"}

    for settings in (secret, LIBRDKAFKAS, oauth):
        security = parse_security(settings)
        assert "hush" not in repr(security) + str(security) + f"{security}"
        assert pickle.loads(pickle.dumps(security)) == security
        assert hash(security)


def test_every_secret_is_a_setting_that_is_understood() -> None:
    assert set(UNDERSTOOD) >= SECRET
    assert all(is_security_setting(name) for name in UNDERSTOOD)
