from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.services.ingest.syslog.parser import SyslogMessage, parse_message

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)


def parse(text: str | bytes, now: datetime = NOW) -> SyslogMessage:
    return parse_message(text.encode() if isinstance(text, str) else text, now)


def fields(text: str | bytes, now: datetime = NOW) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(msgspec.json.encode(parse(text, now)))
    return found


def test_the_example_of_rfc_5424_with_structured_data() -> None:
    text = (
        "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 "
        '[exampleSDID@32473 iut="3" eventSource="Application" eventID="1011"][examplePriority@32473 class="high"] '
        "\ufeffAn application event log entry..."
    )
    assert fields(text) == {
        "time": "2003-10-11T22:14:15.003Z",
        "host": "mymachine.example.com",
        "facility": "local4",
        "severity": "notice",
        "app": "evntslog",
        "msgid": "ID47",
        "data": {
            "exampleSDID@32473": {"iut": "3", "eventSource": "Application", "eventID": "1011"},
            "examplePriority@32473": {"class": "high"},
        },
        "message": "An application event log entry...",
    }


def test_escapes_and_repeated_parameters_of_structured_data() -> None:
    found = parse(r'<34>1 - h a 1 - [x@1 a="say \"hi\" \\ [ok\]" ip="1" ip="2" n="\n"] text')
    assert found.data == {"x@1": {"a": 'say "hi" \\ [ok]', "ip": ["1", "2"], "n": "\\n"}}
    assert (found.message, found.time, found.msgid) == ("text", None, None)


def test_a_message_of_rfc_5424_without_text() -> None:
    assert parse("<34>1 - - - - - -").parsed
    assert parse("<34>1 - - - - - [a]").data == {"a": {}}


@pytest.mark.parametrize(
    "text",
    [
        "no syslog at all", "", "<", "<>x", "<999>x", "<192>x", "<1a>x", "<34>1 2026", "<34>1 yesterday h a p m - x",
        "<34>1 - h a p m [open", '<34>1 - h a p m [a b="never] ends', "<34>1 - h a p m [a]x",
        '<34>1 - h a p m [a "b"] x',
        "<34>1 2003-10-11 h a p m - x", "<34>1 -  a p m - x",
    ],
)  # fmt: skip
def test_undecodable_values_are_kept_as_bytes_and_marked(text: str) -> None:
    found = parse(text)
    assert not found.parsed
    assert found.message == text
    assert fields(text)["parsed"] is False


@pytest.mark.parametrize(
    ("text", "time", "host", "app", "procid", "message"),
    [
        # BSD, as RFC 3164 shows it
        ("<34>Oct 11 22:14:15 mymachine su: 'su root' failed on /dev/pts/8", "2026-10-11T22:14:15+00:00",
         "mymachine", "su", None, "'su root' failed on /dev/pts/8"),
        ("<13>Feb  5 17:32:18 10.0.0.99 Use the BFG!", "2026-02-05T17:32:18+00:00",
         "10.0.0.99", None, None, "Use the BFG!"),
        # local programs name no host
        ("<13>Nov 17 11:59:59 root: hello", "2026-11-17T11:59:59+00:00", None, "root", None, "hello"),
        ("<13>Nov 17 11:59:59 sshd[12]: hello", "2026-11-17T11:59:59+00:00", None, "sshd", "12", "hello"),
        # rsyslog's RSYSLOG_ForwardFormat
        ("<13>2026-11-17T12:00:00.123456+01:00 web1 nginx[88]: GET /", "2026-11-17T12:00:00.123456+01:00",
         "web1", "nginx", "88", "GET /"),
        # Cisco IOS, with and without number, star, origin, year and zone
        ("<189>29: *Apr 18 10:23:45.123: %SYS-5-CONFIG_I: Configured", "2026-04-18T10:23:45.123000+00:00",
         None, "%SYS-5-CONFIG_I", None, "Configured"),
        ("<189>29: rt1: Apr 18 2025 10:23:45 UTC: %SYS-5-CONFIG_I: Configured", "2025-04-18T10:23:45+00:00",
         "rt1", "%SYS-5-CONFIG_I", None, "Configured"),
        # Cisco ASA
        ("<166>Apr 18 2025 10:23:45: %ASA-6-302013: Built", "2025-04-18T10:23:45+00:00",
         None, "%ASA-6-302013", None, "Built"),
        ("<166>Apr 18 2025 10:23:45 fw1 : %ASA-6-302013: Built", "2025-04-18T10:23:45+00:00",
         "fw1", "%ASA-6-302013", None, "Built"),
        # the year behind the time
        ("<34>Oct 11 22:14:15 2024 box app: text", "2024-10-11T22:14:15+00:00", "box", "app", None, "text"),
        # no time at all, and one that cannot be
        ("<13>su: text", None, None, "su", None, "text"),
        ("<13>just text", None, None, None, None, "just text"),
        ("<13>Oct 32 22:14:15 box app: text", None, None, None, None, "Oct 32 22:14:15 box app: text"),
        ("<13>", None, None, None, None, ""),
    ],
)  # fmt: skip
def test_rfc_3164_as_senders_write_it(
    text: str, time: str | None, host: str | None, app: str | None, procid: str | None, message: str
) -> None:
    found = parse(text)
    assert found.parsed
    assert (found.time, found.host, found.app, found.procid, found.message) == (
        time,
        host,
        app,
        procid,
        message,
    )


def test_a_missing_year_is_the_newest_that_is_not_to_come() -> None:
    new_year = datetime(2027, 1, 1, 0, 0, 5, tzinfo=timezone(timedelta(hours=1)))
    assert parse("<13>Dec 31 23:59:59 h a: x", new_year).time == "2026-12-31T23:59:59+01:00"
    assert (
        parse("<13>Jan  1 00:00:30 h a: x", datetime(2026, 12, 31, 23, 59, tzinfo=UTC)).time
        == "2027-01-01T00:00:30+00:00"
    )
    assert parse("<13>Feb 29 10:00:00 h a: x", datetime(2027, 3, 1, tzinfo=UTC)).time is None
    assert (
        parse("<13>Feb 29 10:00:00 h a: x", datetime(2028, 3, 1, tzinfo=UTC)).time
        == "2028-02-29T10:00:00+00:00"
    )


def test_bytes_that_are_not_text_are_distinguishable() -> None:
    assert parse(b"<13>a: \xff\xfe\x00").message == "\\xff\\xfe\x00"


hostile = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=200).map(str.encode),
    st.lists(
        st.sampled_from(
            ["<34>", "<13>1 ", "1 ", "- ", "Oct 11 22:14:15 ", "2026-11-17T12:00:00Z ", "[", "]", '"', "\\", "=", "a",
             ": ", '="', " ", "[a b=\"", "*", "29: ", "99", "host ", "app[1]: ", "\x00", "é", "Feb 29 "]
        ),
        max_size=30,
    ).map(lambda parts: "".join(parts).encode()),
)  # fmt: skip


@given(hostile)
def test_parsing_never_raises_and_always_makes_json(frame: bytes) -> None:
    found = parse(frame)
    assert msgspec.json.decode(msgspec.json.encode(found), type=SyslogMessage) == found
    if not found.parsed and found.message.isascii() and "\\" not in found.message:
        assert found.message.encode() == frame


@pytest.mark.parametrize("part", ["[a]", "[a ", '\\"', "\\", '[a b="', 'a="', " ", "]", "1: "])
def test_a_hostile_message_takes_no_longer_than_others(part: str) -> None:
    """64 KiB of any part in a row: linear time, so that this test ends."""
    for beginning in ("<34>1 - h a p m ", '<34>1 - h a p m [a b="', "<34>", "<34>Oct 11 22:14:15 "):
        parse(beginning + part * (65_536 // len(part)))
