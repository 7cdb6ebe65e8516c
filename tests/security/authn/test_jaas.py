import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.authn.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_module_and_its_options_are_found() -> None:
    module = parse_jaas(f'{PLAIN} required username="alice" password="p;=\\"x\\\\";')

    assert module.name == "PlainLoginModule"
    assert module.options == {"username": "alice", "password": 'p;="x\\'}


@pytest.mark.parametrize(
    "text",
    [
        f"kafkashaded.{PLAIN} required username='alice' password='s';",
        f'{PLAIN} required\n  username = "alice"\n  password="s" ;  ',
        f"{PLAIN} REQUIRED username=alice password=s;",
    ],
)
def test_it_is_read_as_java_reads_it(text: str) -> None:
    assert parse_jaas(text).options == {"username": "alice", "password": "s"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        PLAIN,
        f'{PLAIN} required username="hush" password="hush"',
        f'{PLAIN} required username="hush" password="hush;',
        f'{PLAIN} maybe username="hush";',
        f'{PLAIN} required username="hush" password;',
        f"{PLAIN} required username==hush;",
        f'{PLAIN} required username="hush"; {PLAIN} required username="hush";',
    ],
)
def test_unreadable_records_are_not_retried(text: str) -> None:
    with pytest.raises(SecuritySettingError, match="must be MODULE required") as caught:
        parse_jaas(text)
    assert "hush" not in str(caught.value)


@given(st.text())
def test_every_password_can_be_written(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')

    assert parse_jaas(f'{PLAIN} required password="{quoted}";').options == {"password": password}


@given(st.text())
def test_no_text_does_more_than_to_be_refused(text: str) -> None:
    try:
        parse_jaas(text)
    except SecuritySettingError:
        return
