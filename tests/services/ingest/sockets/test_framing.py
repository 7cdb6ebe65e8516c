from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from barnabas.services.ingest.sockets.framing import Frame, FrameDecoder

LONGEST = 64


def decoded(*pieces: bytes, longest: int = LONGEST) -> tuple[list[Frame], str | None]:
    decoder = FrameDecoder(longest)
    frames = [frame for piece in pieces for frame in decoder.feed(piece)]
    assert decoder.waiting <= longest + len(str(longest)) + 1
    frames += decoder.end()
    return frames, None if decoder.error is None else str(decoder.error)


def test_lines_and_octet_counted_messages_share_a_connection() -> None:
    frames, error = decoded(b"<1>first\n8 <2>secon<3>third\r\n11 <4>two\nlines\n\x00<5>last")
    assert error is None
    assert [frame.data for frame in frames] == [
        b"<1>first",
        b"<2>secon",
        b"<3>third",
        b"<4>two\nline",
        b"s",
        b"<5>last",
    ]


def test_a_line_that_is_too_long_is_cut_and_the_next_one_is_found() -> None:
    frames, error = decoded(b"<1>" + b"a" * 1000 + b"\n<2>next\n")
    assert error is None
    assert frames == [Frame(b"<1>" + b"a" * 61, is_whole=False), Frame(b"<2>next")]


def test_an_endless_line_takes_no_memory() -> None:
    decoder = FrameDecoder(LONGEST)
    for _ in range(1000):
        decoder.feed(b"a" * 1000)
    assert decoder.waiting <= LONGEST


def test_a_count_that_is_too_large_or_none_is_an_error_after_the_frames_before_it() -> None:
    for bad in (b"65 ", b"1" * 50, b"12a", b"2026-11-17 no count", b"9" * 3):
        frames, error = decoded(b"<1>good\n" + bad + b"<2>never\n")
        assert frames == [Frame(b"<1>good")]
        assert error is not None


def test_a_zero_begins_a_line_and_no_count() -> None:
    assert decoded(b"0 \n") == ([Frame(b"0 ")], None)


def test_incomplete_octet_counted_message_is_kept_and_reported() -> None:
    assert decoded(b"20 <1>half of") == ([Frame(b"<1>half of", is_whole=False)], None)
    assert decoded(b"20") == ([], None)


messages = st.binary(max_size=80)
streams = st.lists(
    st.one_of(
        messages.map(lambda data: data + b"\n"),
        messages.map(lambda data: b"%d %s" % (len(data), data)),
        st.binary(max_size=20),
        st.sampled_from([b"\n", b"\r\n", b"\x00", b"0", b"7", b"66 ", b"1" * 9]),
    ),
    max_size=8,
).map(b"".join)


@given(streams, st.lists(st.integers(0, 400), max_size=12))
def test_any_split_of_the_bytes_gives_the_same_frames(stream: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[first:last] for first, last in pairwise(places)]
    assert decoded(*pieces) == decoded(stream)
    assert decoded(*(bytes([one]) for one in stream)) == decoded(stream)


@given(
    st.lists(
        st.binary(min_size=1, max_size=LONGEST).filter(lambda data: data == data.strip(b"\n\r\x00")),
        max_size=6,
    )
)
def test_octet_counted_messages_round_trip(sent: list[bytes]) -> None:
    frames, error = decoded(b"".join(b"%d %s" % (len(data), data) for data in sent))
    assert error is None
    assert [frame.data for frame in frames] == sent
