"""Decisions of the authorizer, compared with a rule-by-rule reference."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.cooperative import Steps
from barnabas.security.authz import standard_authorizer
from barnabas.security.authz.acl_index import NO_ACLS
from barnabas.security.authz.acls import ALL_OPERATIONS, EVERYONE, AclBinding, PatternType, Permission
from barnabas.security.authz.authorizer import Action, Operation, ResourceType
from barnabas.security.authz.standard_authorizer import Policy, StandardAuthorizer, decide
from barnabas.security.context import RequestContext
from barnabas.security.principal import Principal
from tests.support.builders.acls import (
    ALICE,
    BOB,
    acl_sets,
    actions,
    hosts,
    is_about,
    is_allowed,
    principals,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
WRITE, READ, DESCRIBE = Operation.WRITE, Operation.READ, Operation.DESCRIBE


def client(principal: str = ALICE, host: str = "10.0.0.1") -> RequestContext:
    kind, name = principal.split(":")
    return RequestContext(Principal(kind, name), "PLAINTEXT", host)


def topic_acl(
    name: str,
    operation: int = WRITE,
    permission: Permission = ALLOW,
    *,
    principal: str = ALICE,
    host: str = "*",
    pattern: PatternType = LITERAL,
) -> AclBinding:
    return AclBinding(TOPIC, name, pattern, principal, host, operation, permission)


def authorizer(*acls: AclBinding, **policy: Any) -> StandardAuthorizer:
    made = StandardAuthorizer(Policy(**policy))
    made.use(frozenset(acls))
    return made


def may(made: StandardAuthorizer, operation: Operation, topic: str, **who: str) -> bool:
    return made.decisions(client(**who))[Action(operation, TOPIC, topic)]


@given(acl_sets, principals, hosts, actions, st.booleans())
@settings(max_examples=300)
def test_decisions_equal_the_rule_by_rule_reference(
    acls: frozenset[AclBinding], principal: str, host: str, action: Action, is_open: bool
) -> None:
    made = authorizer(*acls, allows_without_acls=is_open)
    expected = is_allowed(acls, principal, host, action, if_none=is_open)
    for _ in range(2):  # the second time from memory
        assert made.decisions(client(principal, host))[action] is expected
    verdict = made.verdict(principal, host, action)
    assert verdict.is_allowed is expected
    assert verdict.rule is None or is_about(verdict.rule, principal, host, action.operation)


@given(st.lists(acl_sets, max_size=5), principals, hosts, actions)
@settings(max_examples=200)
def test_cve_2024_27309_no_decision_outlives_the_acls_it_was_taken_by(
    history: list[frozenset[AclBinding]], principal: str, host: str, action: Action
) -> None:
    """Kafka's AclCache once lost a rule when another one on the same resource was removed."""
    made = authorizer()
    for acls in history:
        made.use(acls)
        assert made.decisions(client(principal, host))[action] is is_allowed(acls, principal, host, action)


def test_cve_2024_27309_a_denial_stays_when_one_of_several_rules_is_removed() -> None:
    kept = [topic_acl("orders"), topic_acl("orders", permission=DENY, principal=BOB)]
    removed = topic_acl("orders", DESCRIBE)
    everyone = topic_acl("orders", principal=EVERYONE)
    made = authorizer(*kept, removed, everyone)
    assert may(made, WRITE, "orders")
    assert not may(made, WRITE, "orders", principal=BOB)
    made.use(frozenset((*kept, everyone)))
    assert may(made, WRITE, "orders")
    assert not may(made, WRITE, "orders", principal=BOB)
    made.use(frozenset())
    assert not may(made, WRITE, "orders")


def test_a_waiting_request_keeps_the_acls_of_its_arrival() -> None:
    made = authorizer(topic_acl("orders"))
    before = made.decisions(client())
    made.use(frozenset())
    assert before[Action(WRITE, TOPIC, "orders")]
    assert not may(made, WRITE, "orders")


def test_super_user_bypasses_denials() -> None:
    made = authorizer(
        topic_acl("*", ALL_OPERATIONS, DENY, principal=EVERYONE), super_users=frozenset({ALICE})
    )
    assert may(made, WRITE, "orders")
    assert not may(made, WRITE, "orders", principal=BOB)
    assert made.authorize_by_resource_type(client(), WRITE, TOPIC)


def test_a_broker_has_the_right_to_act_as_one_and_no_other() -> None:
    made = authorizer(topic_acl("orders"), brokers=frozenset({BOB}))
    decisions = made.decisions(client(BOB))
    assert decisions[Action(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)]
    assert not decisions[Action(Operation.ALTER, ResourceType.CLUSTER)]
    assert not made.decisions(client())[Action(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)]


def test_a_denial_by_a_prefix_beats_an_exact_allowance() -> None:
    made = authorizer(topic_acl("orders.eu"), topic_acl("orders", permission=DENY, pattern=PREFIXED))
    assert not may(made, WRITE, "orders.eu")


def test_a_denial_implies_nothing() -> None:
    made = authorizer(topic_acl("orders", READ), topic_acl("orders", DESCRIBE, DENY))
    assert may(made, READ, "orders")
    assert not may(made, DESCRIBE, "orders")


@pytest.mark.parametrize(
    ("host", "client_host", "is_match"),
    [
        ("10.0.0.0/8", "10.200.3.4", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.7/24", "10.0.0.200", True),  # bits behind the mask do not count
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("0:0:0:0:0:0:0:1", "::1", True),  # as Java prints it
        ("fe80::/10", "fe80::1%eth0", True),
        ("2001:db8::/32", "10.0.0.1", False),
        ("localhost", "127.0.0.1", False),
        ("10.0.0.0/99", "10.0.0.1", False),
    ],
)
def test_hosts_are_addresses_and_networks(host: str, client_host: str, is_match: bool) -> None:
    made = authorizer(topic_acl("orders", host=host))
    assert may(made, WRITE, "orders", host=client_host) is is_match


def anywhere(*acls: AclBinding, **policy: Any) -> bool:
    return authorizer(*acls, **policy).authorize_by_resource_type(client(), WRITE, TOPIC)


def test_an_operation_is_allowed_somewhere_if_no_denial_covers_all_of_it() -> None:
    prefix, literal = topic_acl("ab", pattern=PREFIXED), topic_acl("abc")
    assert not anywhere()
    assert anywhere(literal)
    assert anywhere(prefix)
    assert anywhere(topic_acl("*"))
    assert anywhere(topic_acl("abc", ALL_OPERATIONS))
    assert not anywhere(topic_acl("abc", READ))
    assert not anywhere(literal, topic_acl("abc", permission=DENY))
    assert anywhere(literal, topic_acl("ab", permission=DENY))
    assert not anywhere(literal, prefix, topic_acl("a", permission=DENY, pattern=PREFIXED))
    assert anywhere(prefix, topic_acl("abc", permission=DENY, pattern=PREFIXED))
    assert not anywhere(topic_acl("*"), topic_acl("*", permission=DENY))
    assert not anywhere(topic_acl("abc", host="10.9.9.9"))
    assert anywhere(topic_acl("abc", host="10.0.0.0/16"))
    assert anywhere(allows_without_acls=True)


def test_remembered_entries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standard_authorizer, "REMEMBERED", 100)
    made = authorizer(topic_acl("orders"))
    seen: list[Any] = []
    for number in range(1000):
        decisions: Any = made.decisions(client(host=f"10.0.0.{number % 7}"))
        assert not decisions[Action(WRITE, TOPIC, f"nonsense-{number}")]
        if not any(decisions is each for each in seen):
            seen.append(decisions)
    assert max(len(decisions) for decisions in seen) <= 100
    assert may(made, WRITE, "orders")


def many_acls(count: int) -> frozenset[AclBinding]:
    users = [f"User:user-{number}" for number in range(100)]
    return frozenset(
        AclBinding(
            TOPIC,
            f"team-{number % 97}.topic-{number}",
            PREFIXED if number % 3 == 0 else LITERAL,
            users[number % 100],
            "*",
            (READ, WRITE)[number % 2],
            ALLOW,
        )
        for number in range(count)
    )


def test_a_decision_by_ten_thousand_acls_costs_a_few_microseconds() -> None:
    index = NO_ACLS.changed((), many_acls(10_000))
    requested = [Action(WRITE, TOPIC, f"team-{n % 97}.topic-{n}.eu") for n in range(500)]
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for number, action in enumerate(requested):
            decide(Policy(), index, f"User:user-{number % 100}", "10.0.0.1", action)
        best = min(best, (time.process_time() - start) / len(requested))
    assert best < 50e-6  # some 5 us; ten times more on a busy machine


def longest_step(steps: Steps[None]) -> float:
    """In seconds of CPU."""
    longest = 0.0
    while True:
        start = time.thread_time()
        try:
            next(steps)
        except StopIteration:
            return longest
        finally:
            longest = max(longest, time.thread_time() - start)


def shortest(measure: Callable[[], float]) -> float:
    """Minimum of several attempts, which excludes garbage collection."""
    return min(measure() for _ in range(5))


def test_no_step_of_indexing_ten_thousand_acls_takes_long() -> None:
    acls = many_acls(10_000)
    # Some 1 ms each; all of them together take 50 times that.
    assert shortest(lambda: longest_step(authorizer().preparing(acls))) < 0.010


def test_adding_a_few_acls_to_ten_thousand_is_fast() -> None:
    acls = many_acls(10_000)
    removed = set(sorted(acls)[:3])
    made = authorizer(*acls)

    def change() -> float:
        made.use(acls)
        start = time.thread_time()
        made.use((acls - removed) | {topic_acl("orders")})
        return time.thread_time() - start

    assert shortest(change) < 0.010  # some 2 ms
    assert may(made, WRITE, "orders")


@given(st.lists(st.tuples(acl_sets, st.integers(0, 20)), max_size=5), principals, hosts, actions)
@settings(max_examples=200)
def test_cve_2024_27309_until_new_acls_are_indexed_the_old_ones_decide(
    history: list[tuple[frozenset[AclBinding], int]], principal: str, host: str, action: Action
) -> None:
    """Each set is indexed for some steps, and used only if that is all of them."""
    made, used = authorizer(), frozenset[AclBinding]()
    for acls, count in history:
        steps = made.preparing(acls)
        taken = len(list(islice(steps, count)))
        assert made.decisions(client(principal, host))[action] is is_allowed(used, principal, host, action)
        if taken < count:
            made.use(acls)
            used = acls
        assert made.decisions(client(principal, host))[action] is is_allowed(used, principal, host, action)


def test_cached_decisions_are_dropped_with_the_acls() -> None:
    made = authorizer(topic_acl("orders"))
    for _ in range(2):  # the second time from memory
        assert made.authorize_by_resource_type(client(), WRITE, TOPIC)
        assert not made.authorize_by_resource_type(client(BOB), WRITE, TOPIC)
    made.use(frozenset())
    assert not made.authorize_by_resource_type(client(), WRITE, TOPIC)
