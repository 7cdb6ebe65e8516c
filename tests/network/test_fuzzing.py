"""Extreme and damaged frames of every API within cost limits (tests/fuzz; `make fuzz` sends a million)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.handlers.table import HANDLERS
from barnabas.network.requests.routes import Handler
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.metadata import ApiVersionsRequest
from barnabas.protocol.schema import Message
from tests.fuzz import corpus
from tests.fuzz.batches import Batches
from tests.fuzz.driving import Hung, Talk, Target
from tests.fuzz.findings import summary
from tests.fuzz.generating import Generator
from tests.fuzz.judging import Failure, alone, confirmed, message_of, read_answers
from tests.fuzz.running import CONNECTIONS, Run
from tests.fuzz.seeds import frame
from tests.fuzz.stage import prepare
from tests.fuzz.unauthenticated import PROBE_FRAME, Conversation, judged
from tests.fuzz.variants import AFTER, BEFORE, PLAIN, TURNS, Variant
from tests.fuzz.world import World

SEED = 12
SECONDS = 15.0  # for all variants together; `make fuzz` continues
EXAMPLES = 80
CORPUS_BYTES = 200_000


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    broker = Target()
    try:
        prepare(broker, World())
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def mutant() -> Iterator[Target]:
    broker = Target("mutant")
    try:
        yield broker
    finally:
        broker.stop()


@pytest.mark.slow
@pytest.mark.timeout(
    900
)  # each listener has its turn, which takes minutes on a machine with a load of thirty
def test_frames_that_have_done_harm_and_frames_like_them_do_none() -> None:
    run = Run(SEED, variants=list(TURNS))
    try:
        findings = run.run(10**9, SECONDS)
    finally:
        run.close()
    assert findings.failures == {}, "\n".join(summary(findings))
    assert findings.answers > 100
    assert set(findings.by_variant) == set(map(str, TURNS)), "each had its turn"


@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(st.randoms(use_true_random=False), st.sampled_from(HANDLERS))
def test_cost_of_a_valid_message_is_proportional_to_its_size(
    target: Target, source: random.Random, handler: Handler
) -> None:
    data = Generator(source, World(), _BATCHES).frame(1, handler)
    failures = alone(target, data) and confirmed(target, data)
    assert failures == [], message_of(data)


_BATCHES = Batches(random.Random(1), 0)


def test_the_generator_makes_frames_that_can_be_decoded_of_every_api() -> None:
    generator = Generator(random.Random(3), World(), _BATCHES)
    for handler in HANDLERS:
        for _ in range(5):
            decoded = message_of(generator.frame(1, handler))
            assert decoded is not None
            assert isinstance(decoded[1], handler.request_class)


@pytest.mark.parametrize(
    ("defect", "kind"),
    [("loop", "loop"), ("memory", "memory"), ("log", "log"), ("forged", "log"), ("flood", "flood")],
)
def test_a_defect_is_found(mutant: Target, defect: str, kind: str) -> None:
    assert kind in {
        failure.kind for failure in confirmed(mutant, frame(HeartbeatRequest(group_id=defect), 3))
    }


def test_defects_within_bursts_are_found_and_attributed_to_their_frames(mutant: Target) -> None:
    run = Run(SEED, variants=[Variant("sasl_tls")], start=lambda: mutant)
    planted = {}
    for number, defect in enumerate(("loop", "memory", "log", "flood", "error")):
        header = RequestHeader(ApiKey.HEARTBEAT, 3, 1000 + number, "fuzz")
        planted[defect] = b"".join(encode_request(header, HeartbeatRequest(group_id=defect)))
        burst = [[frame(HeartbeatRequest(group_id="sound" * 40), 3)] * 3 for _ in range(CONNECTIONS)]
        burst[5].insert(0, planted[defect])
        run.converse(burst)
        run.judge()

    mutant.variant = PLAIN
    assert {kind: found.frame for (_, kind), found in run.findings.failures.items()} == planted
    assert {api for api, _ in run.findings.failures} == {"Heartbeat"}


def test_a_broker_that_gave_up_while_the_fuzzer_was_suspended_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suspended, awake = Run(SEED), Run(SEED)
    monkeypatch.setattr(suspended._heartbeat, "_latest", time.monotonic() - 60)
    for run in (suspended, awake):
        run.find_who_hangs(Hung("nobody can connect"))

    assert suspended.findings.failures == {}
    assert list(awake.findings.failures) == [("several", "hung")]


def test_a_sound_request_has_no_defect(mutant: Target) -> None:
    assert confirmed(mutant, frame(HeartbeatRequest(group_id="sound"), 3)) == []


@pytest.mark.parametrize("variant", [each for each in TURNS if each.stage == AFTER], ids=str)
def test_a_sound_request_is_answered_on_every_listener(target: Target, variant: Variant) -> None:
    target.variant = variant
    sent = [frame(ApiVersionsRequest("fuzz", "1"), 3)]
    ((_, answer),) = read_answers(sent, target.exchange(sent, quiet=5.0).answers)

    target.variant = PLAIN
    assert isinstance(answer, Message)


@pytest.mark.parametrize("listener", ["sasl", "sasl_tls"])
def test_unauthorized_client_that_is_served_is_detected(
    mutant: Target, target: Target, listener: str
) -> None:
    conversation = Conversation([frame(ApiVersionsRequest("fuzz", "1"), 3), PROBE_FRAME])
    found = {}
    for broker in (mutant, target):
        broker.variant = Variant(listener, BEFORE)
        found[broker] = judged(conversation, broker.exchange(conversation.frames, quiet=5.0))
        broker.variant = PLAIN

    assert found[target] is None
    failure = found[mutant]
    assert failure is not None
    assert failure.kind == "served"


def test_unauthorized_client_left_waiting_is_detected() -> None:
    conversation = Conversation([frame(ApiVersionsRequest("fuzz", "1"), 3)])

    assert judged(conversation, Talk(conversation.frames, closed=True)) is None
    failure = judged(conversation, Talk(conversation.frames))
    assert failure is not None
    assert failure.kind == "silent"


def test_empty_response_is_a_failure(mutant: Target) -> None:
    sent = [frame(HeartbeatRequest(group_id="error"), 3)]
    ((_, answer),) = read_answers(sent, mutant.exchange(sent, quiet=5.0).answers)
    assert isinstance(answer, Failure)
    assert answer.kind == "error"


def test_frame_is_reduced_to_the_failing_part() -> None:
    generator = Generator(random.Random(5), World(), _BATCHES)
    handler = next(row for row in HANDLERS if row.request_class.__name__ == "DescribeGroupsRequest")
    wide = next(data for data in (generator.frame(1, handler) for _ in range(1000)) if len(data) > 5000)

    def mentions_the_group(data: bytes) -> bool:
        decoded: tuple[int, Message] | None = message_of(data)
        return decoded is not None and "group" in repr(decoded[1])

    assert len(corpus.minimised(wide, mentions_the_group)) < len(wide) / 10


def test_the_corpus_stays_small() -> None:
    assert sum(path.stat().st_size for path in corpus.FOLDER.iterdir()) < CORPUS_BYTES
