import pytest

from barnabas.config.listeners import ListenerSpec, parse_listeners, parse_protocol_map
from barnabas.config.setting import ConfigError


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("PLAINTEXT://127.0.0.1:9092", [ListenerSpec("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")]),
        ("plaintext://localhost:0", [ListenerSpec("PLAINTEXT", "localhost", 0, "PLAINTEXT")]),
        ("PLAINTEXT://:9092", [ListenerSpec("PLAINTEXT", "", 9092, "PLAINTEXT")]),
        ("SSL://[::1]:9093", [ListenerSpec("SSL", "::1", 9093, "SSL")]),
        (
            "PLAINTEXT://a:1, SSL://a:2",
            [ListenerSpec("PLAINTEXT", "a", 1, "PLAINTEXT"), ListenerSpec("SSL", "a", 2, "SSL")],
        ),
        (
            "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
            [
                ListenerSpec("PLAINTEXT", "127.0.0.1", 0, "PLAINTEXT"),
                ListenerSpec("SSL", "127.0.0.1", 0, "SSL"),
            ],
        ),
    ],
)
def test_listeners_have_a_name_a_host_and_a_port(text: str, specs: list[ListenerSpec]) -> None:
    assert parse_listeners(text) == specs


@pytest.mark.parametrize(
    "text", ["9092", "localhost:9092", "PLAINTEXT://localhost", "PLAINTEXT://h:99999", "X://a b:1"]
)
def test_a_listener_of_another_form_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"listeners: expected NAME://HOST:PORT, for example PLAINTEXT://127.0.0.1"
    ):
        parse_listeners(text)


def test_listener_without_a_protocol_is_reported_with_a_remedy() -> None:
    with pytest.raises(ConfigError, match=r"add EXTERNAL:PLAINTEXT to listener\.security\.protocol\.map"):
        parse_listeners("EXTERNAL://:9092")
    (spec,) = parse_listeners("EXTERNAL://:9092", {"EXTERNAL": "SSL"})
    assert spec.security_protocol == "SSL"


def test_two_listeners_need_two_names_and_two_ports() -> None:
    with pytest.raises(ConfigError, match="different name"):
        parse_listeners("PLAINTEXT://a:1,PLAINTEXT://a:2")
    with pytest.raises(ConfigError, match="9092 is used twice"):
        parse_listeners("PLAINTEXT://a:9092,SSL://b:9092")
    assert len(parse_listeners("PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092")) == 2
    assert len(parse_listeners("PLAINTEXT://a:9,SSL://b:9", setting="advertised.listeners")) == 2


def test_a_listener_reads_back_as_it_was_written() -> None:
    for text in ("PLAINTEXT://127.0.0.1:9092", "SSL://[::1]:9093"):
        assert [str(spec) for spec in parse_listeners(text)] == [text]


def test_the_map_of_protocols_names_each_listener_once() -> None:
    assert parse_protocol_map("inside:plaintext, OUT:SASL_SSL") == {"INSIDE": "PLAINTEXT", "OUT": "SASL_SSL"}
    for text in ("A", "A:TLS", ":SSL", "A:SSL,a:SSL"):
        with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map"):
            parse_protocol_map(text)
