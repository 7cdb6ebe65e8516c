"""Random valid histories of a cluster: entries as written by a controller."""

from hypothesis import strategies as st

from barnabas.cluster.deltas import ConfigsChanged, Delta, FeatureFinalized, apply
from barnabas.cluster.image import EMPTY_IMAGE, ConfigResourceType, MetadataImage, Resource
from barnabas.common.cooperative import finish
from barnabas.common.types import TopicPartition
from barnabas.controller.acls import change_acls, create_acls, delete_acls
from barnabas.controller.brokers import (
    Registration,
    allocate_producer_ids,
    create_cluster,
    fence,
    register,
    unfence,
)
from barnabas.controller.client_quotas import Alteration, alter_client_quotas
from barnabas.controller.decision import ControllerPolicy
from barnabas.controller.delegation_tokens import NewToken, TokenRules, create_token, remove_expired
from barnabas.controller.reassignment import alter_reassignments
from barnabas.controller.scram_credentials import Deletion, Upsertion, alter_credentials
from barnabas.controller.topics import (
    MorePartitions,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
)
from barnabas.security.authn.credentials import ScramCredential
from barnabas.security.authz.acl_filters import AclFilter
from barnabas.security.authz.acls import AclBinding

POLICY = ControllerPolicy()
BROKERS = range(1, 5)
USERS = st.tuples(st.sampled_from(["alice", "bob"]), st.sampled_from([1, 2]))
TOKENS = TokenRules(longest_ms=100, renewed_for_ms=20, max_tokens=3)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Delta]]:
    """Consistent entries from the empty image on, each as stored by one decision."""
    entries: list[list[Delta]] = []
    image = EMPTY_IMAGE
    for kind in draw(st.lists(st.sampled_from(sorted(_STEPS)), min_size=1, max_size=20)):
        deltas = _STEPS[kind](draw, image)
        if deltas:
            entries.append(deltas)
            image = apply(image, deltas)
    return entries


def replay(entries: list[list[Delta]]) -> MetadataImage:
    image = EMPTY_IMAGE
    for deltas in entries:
        image = apply(image, deltas)
    return image


def _found(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    return create_cluster(image, "a-cluster", {"group.version": 1})[0]


def _register(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    features = {name: (0, level) for name, level in image.features.items()}
    registration = Registration(draw(st.sampled_from(BROKERS)), features=features, clean=draw(st.booleans()))
    return register(image, registration, POLICY)[0]


def _fence(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    broker = draw(st.sampled_from(BROKERS))
    return fence(image, broker, POLICY)[0] if broker in image.brokers else []


def _unfence(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    broker = draw(st.sampled_from(BROKERS))
    return unfence(image, broker, POLICY)[0] if broker in image.brokers else []


def _create(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    topic = NewTopic(
        draw(st.sampled_from("abcde")),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3)),
        configs=draw(st.dictionaries(st.sampled_from(["retention.ms", "cleanup.policy"]), st.text())),
    )
    return create_topics(image, [topic], POLICY)[0]


def _delete(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    topics = sorted(image.topics)
    return delete_topics(image, [image.topics[draw(st.sampled_from(topics))].topic_id])[0] if topics else []


def _grow(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    return create_partitions(
        image, [MorePartitions(draw(st.sampled_from("abcde")), draw(st.integers(2, 8)))]
    )[0]


def _move(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    target = draw(st.one_of(st.none(), st.lists(st.sampled_from(BROKERS), min_size=1, unique=True)))
    return alter_reassignments(image, [(TopicPartition(draw(st.sampled_from("abcde")), 0), target)], POLICY)[
        0
    ]


def _configure(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    resource = draw(
        st.sampled_from([Resource(ConfigResourceType.BROKER, ""), Resource(ConfigResourceType.GROUP, "g")])
    )
    values = draw(st.dictionaries(st.sampled_from("xyz"), st.one_of(st.none(), st.text()), min_size=1))
    return [ConfigsChanged(resource.type, resource.name, values)]


def _finalize(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    return [FeatureFinalized(draw(st.sampled_from(["one", "two"])), draw(st.integers(0, 3)))]


def _allocate(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    for broker in image.brokers.values():
        return allocate_producer_ids(image, broker.id, broker.epoch)[0]
    return []


def _allow(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    rules = st.builds(
        AclBinding,
        st.sampled_from([2, 3]),
        st.sampled_from(["*", "orders"]),
        st.sampled_from([3, 4]),
        st.sampled_from(["User:alice", "User:bob"]),
        st.sampled_from(["*", "10.0.0.0/8"]),
        st.integers(2, 8),
        st.sampled_from([2, 3]),
    )
    return change_acls(image, finish(create_acls(image.acls, draw(st.lists(rules, min_size=1, max_size=5)))))[
        0
    ]


def _withdraw(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    wanted = AclFilter(principal=draw(st.sampled_from([None, "User:alice", "User:bob"])))
    return change_acls(image, finish(delete_acls(image.acls, [wanted])))[0]


def _enrol(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    credential = ScramCredential(draw(st.binary()), b"stored", b"server", draw(st.integers(4096, 16384)))
    return alter_credentials(image, [Upsertion(*draw(USERS), credential)])[0]


def _dismiss(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    return alter_credentials(image, [Deletion(*draw(USERS))])[0]


def _issue(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    wanted = NewToken("User:alice", "User:bob", ("User:carol",), draw(st.integers(-1, 50)))
    if len(image.delegation_tokens) == TOKENS.max_tokens:
        return []
    return create_token(image, wanted, TOKENS, draw(st.integers(0, 100)))[0]


def _expire(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    return remove_expired(image, draw(st.integers(0, 200)))[0]


def _limit(draw: st.DrawFn, image: MetadataImage) -> list[Delta]:
    entities: list[list[tuple[str, str | None]]] = [[("user", "alice")], [("user", None), ("client-id", "c")]]
    entity = draw(st.sampled_from(entities))
    value = draw(st.one_of(st.none(), st.floats(1, 1e9)))
    key = draw(st.sampled_from(["request_percentage", "controller_mutation_rate"]))
    return alter_client_quotas(image, [Alteration(entity, [(key, value)])])[0]


_STEPS = {
    step.__name__: step
    for step in (
        _found,
        _register,
        _fence,
        _unfence,
        _create,
        _delete,
        _grow,
        _move,
        _configure,
        _finalize,
        _allocate,
        _allow,
        _withdraw,
        _enrol,
        _dismiss,
        _issue,
        _expire,
        _limit,
    )
}
