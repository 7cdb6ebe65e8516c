from __future__ import annotations

import gzip
import json
import tracemalloc
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.services.ingest.http.bodies import JSON, LINES, key_reader, media_of, plain_body, read_values
from barnabas.services.ingest.http.errors import PublishError

MOST = 1000


def values(body: bytes, media: str = JSON, limit: int = MOST) -> list[bytes]:
    return read_values(body, media, limit)


def refused(body: bytes, media: str = JSON, limit: int = MOST) -> PublishError:
    with pytest.raises(PublishError) as caught:
        read_values(body, media, limit)
    return caught.value


def test_one_value_an_array_and_lines() -> None:
    assert values(b' {"a": 1}\n') == [b'{"a": 1}']
    assert values(b'[1, {"a" : [2]} ,"x"]') == [b"1", b'{"a" : [2]}', b'"x"']
    assert values(b'{"a":1}\r\n\n  [2]\n3', LINES[0]) == [b'{"a":1}', b"[2]", b"3"]


@pytest.mark.parametrize(
    ("body", "media", "line"),
    [
        (b'{"a":1}\n{"a":}\n', LINES[0], 2),
        (b'\n\n{"a":1', LINES[0], 3),
        (b"[1,\n2,\nx]", JSON, 3),
        (b'{"a":\n1', JSON, 2),
        (b"\xff", JSON, 1),
        (b'1\n"\xff"', LINES[0], 2),
        (b"[" * 100_000, JSON, 1),
        (b"1\n" + b"[" * 100_000, LINES[0], 2),
        (b'{"a":1} {"b":2}', JSON, 1),
        (b"NaN", JSON, 1),
    ],
)
def test_invalid_json_is_rejected_with_its_line(body: bytes, media: str, line: int) -> None:
    error = refused(body, media)
    assert (error.status, error.line) == (400, line)
    assert "nothing of this body was written" in error.message


def test_no_record_and_too_many() -> None:
    for body in (b"", b"  \n", b"[]"):
        assert refused(body).status == 400
    assert refused(b"\n\n", LINES[0]).status == 400
    assert refused(b"[1,2,3]", limit=2).status == 413
    assert refused(b"1\n2\n3\n", LINES[0], limit=2).status == 413


def test_millions_of_empty_lines_take_no_time() -> None:
    body = b"\n" * 2_000_000 + b" 1 \n" + b" \n" * 1_000_000 + b"x"
    began = thread_time()
    assert refused(body, LINES[0]).message.startswith("line 3000002 ")
    assert thread_time() - began < 0.3


@given(st.binary(max_size=200), st.sampled_from([JSON, LINES[0]]))
def test_any_bytes_are_values_or_a_refusal(body: bytes, media: str) -> None:
    try:
        found = values(body, media)
    except PublishError:
        return
    for each in found:
        json.loads(each)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(plain, min_size=1, max_size=5))
def test_values_round_trip(sent: list[object]) -> None:
    assert [json.loads(each) for each in values(json.dumps(sent, indent=1).encode())] == sent
    lines = "\n".join(json.dumps(each, ensure_ascii=False) for each in sent).encode()
    assert [json.loads(each) for each in values(lines, LINES[0])] == sent


def test_gzip_is_bounded_and_whole() -> None:
    body = gzip.compress(b'{"a":1}')
    assert plain_body(body, "gzip", 100) == b'{"a":1}'
    assert plain_body(b"x", "identity", 1) == b"x"
    bomb = gzip.compress(b" " * 50_000_000)
    for encoded, encoding, status in (
        (bomb, "gzip", 413),
        (body[:-3], "gzip", 400),
        (b"no gzip", "gzip", 400),
        (body, "br", 415),
    ):
        with pytest.raises(PublishError) as caught:
            plain_body(encoded, encoding, 1_000_000)
        assert caught.value.status == status


def test_html_form_posts_are_rejected() -> None:
    assert media_of("application/json; charset=utf-8") == JSON
    assert media_of("application/cloudevents+json") == JSON
    assert media_of("Application/X-NDJSON") == LINES[0]
    for kind in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        with pytest.raises(PublishError) as caught:
            media_of(kind)
        assert caught.value.status == 415


@pytest.mark.parametrize(
    ("field", "value", "key"),
    [
        ("user", '{"user": "é", "x": 1}', "é".encode()),
        ("user", '{"user": 7}', b"7"),
        ("user", '{"user": null}', None),
        ("user", "{}", None),
        ("user", "[1]", None),
        ("user.id", '{"user": {"id": "a"}}', b"a"),
        ("user.id", '{"user": 3}', None),
        ("user.id", '{"user": {}}', None),
        ("user.id", '{"user": {"id": {"n": 1}}}', b'{"n": 1}'),
        ("a-b c", '{"a-b c": true}', b"true"),
        (None, '{"user": 1}', None),
    ],
)
def test_the_key_is_a_field_of_the_value(field: str | None, value: str, key: bytes | None) -> None:
    assert key_reader(field)(value.encode()) == key


def test_an_array_of_too_many_elements_is_refused_before_they_are_made() -> None:
    body = b"[" + b"0," * 2_000_000 + b"0]"
    tracemalloc.start()
    try:
        with pytest.raises(PublishError) as refused:
            read_values(body, JSON, 1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.status == 413
    assert peak < len(body) + (8 << 20)


@pytest.mark.parametrize("count", [1, 999, 1000])
def test_array_up_to_the_limit_is_accepted_regardless_of_commas(count: int) -> None:
    body = json.dumps([{"a": [1, 2, ","], "n": number} for number in range(count)]).encode()
    assert [json.loads(value)["n"] for value in read_values(body, JSON, 1000)] == list(range(count))
