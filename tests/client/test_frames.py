from unittest.mock import Mock

from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.frames import MAX_FRAME, SMALL_FRAMES, FrameReceiver


def feed(receiver: FrameReceiver, data: bytes, step: int) -> None:
    """As the event loop does: at most as much as the receiver has room for."""
    while data:
        buffer = receiver.get_buffer(-1)
        count = min(step, len(buffer), len(data))
        buffer[:count] = data[:count]
        receiver.buffer_updated(count)
        data = data[count:]


def framed(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(1, 500))
def test_frames_round_trip_with_any_split(frames: list[bytes], step: int) -> None:
    received: list[bytes] = []
    receiver = FrameReceiver(lambda frame: received.append(bytes(frame)), Mock())

    feed(receiver, framed(frames), step)

    assert received == frames


def test_a_frame_larger_than_the_buffer_is_received_whole() -> None:
    frames = [b"a", b"x" * (3 * SMALL_FRAMES), b"b", b"y" * SMALL_FRAMES]
    received: list[bytes] = []
    receiver = FrameReceiver(lambda frame: received.append(bytes(frame)), Mock())

    feed(receiver, framed(frames), 50_000)

    assert received == frames


def test_cve_2026_10142_a_length_that_no_broker_sends_ends_the_connection_before_anything_is_allocated() -> (
    None
):
    ends: list[Exception | None] = []
    receiver = FrameReceiver(Mock(), ends.append)
    receiver.transport = Mock()

    feed(receiver, (MAX_FRAME + 1).to_bytes(4, "big"), 4)

    assert "not a Kafka broker" in str(ends[0])
    receiver.transport.abort.assert_called_once()
