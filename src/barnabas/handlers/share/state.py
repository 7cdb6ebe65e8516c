"""InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState and
ReadShareGroupStateSummary: requests of share partition leaders and group coordinators to the share coordinator.

Each partition of a request has its own record in `__share_group_state`. The response waits for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas.common.errors import KafkaError
from barnabas.protocol.internal_topics import SharePartitionKey
from barnabas.protocol.messages import share_state as messages
from barnabas.protocol.schema import Message
from barnabas.share import ShareCoordinator, StateWrite, StoredState, from_batches

if TYPE_CHECKING:
    from barnabas.network.requests import Request

ASKED_AT_ONCE = 50  # partitions per turn of the loop; each write takes about 0.2 ms


class ShareStateCoordinators(Protocol):
    @property
    def shares(self) -> ShareCoordinator: ...


class ShareStateNeeds(Protocol):
    """Broker attributes used by the share state handlers."""

    @property
    def call_soon(self) -> Callable[[Callable[[], None]], object]: ...

    @property
    def coordinators(self) -> ShareStateCoordinators: ...


Done = Callable[[Any], None]


class StateApi(NamedTuple):
    """One state API: the coordinator call for a partition, and the response classes from the outside in.
    `returned` maps fields of a stored state to response fields.
    """

    ask: Callable[[ShareCoordinator, SharePartitionKey, Any, Done], None]
    response: type[Message]
    topic: Callable[..., Any]
    partition: Callable[..., Any]
    returned: Mapping[str, Callable[[StoredState], object]] = {}

    def answer(self, index: int, outcome: StoredState | KafkaError | None) -> Any:
        if isinstance(outcome, KafkaError):
            return self.partition(partition=index, error_code=outcome.code, error_message=outcome.message)
        returned = {} if outcome is None else {name: of(outcome) for name, of in self.returned.items()}
        return self.partition(partition=index, **returned)


def _write(shares: ShareCoordinator, key: SharePartitionKey, wanted: Any, done: Done) -> None:
    write = StateWrite(
        wanted.state_epoch,
        wanted.leader_epoch,
        wanted.start_offset,
        wanted.delivery_complete_count,
        from_batches(wanted.state_batches),
    )
    shares.write(key, write, done)


INITIALIZE = StateApi(
    lambda shares, key, wanted, done: shares.initialize(key, wanted.state_epoch, wanted.start_offset, done),
    messages.InitializeShareGroupStateResponse,
    messages.InitializeStateResult,
    messages.InitializeShareGroupStatePartitionResult,
)
READ = StateApi(
    lambda shares, key, wanted, done: shares.read(key, wanted.leader_epoch, done),
    messages.ReadShareGroupStateResponse,
    messages.ReadStateResult,
    messages.ReadShareGroupStatePartitionResult,
    {
        "state_epoch": lambda state: state.state_epoch,
        "start_offset": lambda state: state.start_offset,
        "state_batches": lambda state: [messages.StateBatch(*batch) for batch in state.batches],
    },
)
WRITE = StateApi(
    _write,
    messages.WriteShareGroupStateResponse,
    messages.WriteStateResult,
    messages.WriteShareGroupStatePartitionResult,
)
DELETE = StateApi(
    lambda shares, key, wanted, done: shares.delete(key, done),
    messages.DeleteShareGroupStateResponse,
    messages.DeleteStateResult,
    messages.DeleteShareGroupStatePartitionResult,
)
READ_SUMMARY = StateApi(
    lambda shares, key, wanted, done: shares.summary(key, done),
    messages.ReadShareGroupStateSummaryResponse,
    messages.ReadStateSummaryResult,
    messages.ReadShareGroupStateSummaryPartitionResult,
    {
        "state_epoch": lambda state: state.state_epoch,
        "leader_epoch": lambda state: state.leader_epoch,
        "start_offset": lambda state: state.start_offset,
        "delivery_complete_count": lambda state: state.finished_count,
    },
)


def _serve(api: StateApi, broker: ShareStateNeeds, request: Request, message: Any) -> None:
    """Call the coordinator for each partition; respond when all are complete. Without a group the response is
    empty, as in Kafka.

    A request may name tens of thousands of partitions: some are started in each turn of the loop.
    """
    response: Any = api.response(results=[])
    missing = 1  # this function: some complete at once

    def settle() -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            request.respond(response)

    def settled(result: Any, index: int, outcome: Any) -> None:
        result.partitions.append(api.answer(index, outcome))
        settle()

    def asking() -> Iterator[None]:
        for topic in message.topics if message.group_id else ():
            result = api.topic(topic_id=topic.topic_id, partitions=[])
            response.results.append(result)
            for wanted in topic.partitions:
                nonlocal missing
                missing += 1
                key = SharePartitionKey(message.group_id, topic.topic_id, wanted.partition)
                api.ask(broker.coordinators.shares, key, wanted, partial(settled, result, key.partition))
                yield

    def go_on(left: Iterator[None]) -> None:
        if sum(1 for _ in islice(left, ASKED_AT_ONCE)) == ASKED_AT_ONCE:
            broker.call_soon(lambda: go_on(left))
        else:
            settle()

    go_on(asking())


initialize_state = partial(_serve, INITIALIZE)
read_state = partial(_serve, READ)
write_state = partial(_serve, WRITE)
delete_state = partial(_serve, DELETE)
read_summary = partial(_serve, READ_SUMMARY)
