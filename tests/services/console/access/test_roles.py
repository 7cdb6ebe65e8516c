from __future__ import annotations

import pytest

from barnabas.security.authz.authorizer import CLUSTER_NAME, Action, Operation, ResourceType
from barnabas.services.console.access.model import Grant, MaskRule, Role, fits
from barnabas.services.console.access.passwords import ApiToken, ApiTokens, is_digest, new_token
from barnabas.services.console.access.roles import NOTHING, Hidden, Roles, hidden_of, rights_of
from barnabas.services.console.needs import ADMINISTER

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


def may(roles: Roles, who: str, operation: Operation, kind: ResourceType, name: str = "orders") -> bool:
    return roles.allow([f"User:{who}"], Action(operation, kind, CLUSTER_NAME if kind is CLUSTER else name))


@pytest.mark.parametrize(
    ("operation", "kind", "first"),
    [
        (Operation.DESCRIBE, TOPIC, Role.VIEWER),
        (Operation.DESCRIBE, GROUP, Role.VIEWER),
        (Operation.DESCRIBE_CONFIGS, CLUSTER, Role.VIEWER),
        (Operation.READ, TOPIC, Role.READER),
        (Operation.WRITE, TOPIC, Role.DEVELOPER),
        (Operation.READ, GROUP, Role.DEVELOPER),
        (Operation.DELETE, GROUP, Role.DEVELOPER),
        (Operation.CREATE, TOPIC, Role.OPERATOR),
        (Operation.DELETE, TOPIC, Role.OPERATOR),
        (Operation.ALTER_CONFIGS, TOPIC, Role.OPERATOR),
        (Operation.ALTER, CLUSTER, Role.OPERATOR),
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID, Role.OPERATOR),
        (Operation.ALTER, ResourceType.USER, Role.ADMIN),
    ],
)
def test_a_right_belongs_to_its_role_and_to_those_above(
    operation: Operation, kind: ResourceType, first: Role
) -> None:
    for role in Role:
        roles = Roles("here", [Grant(role, ("alice",))])
        assert may(roles, "alice", operation, kind) is (role >= first), role
        assert not may(roles, "bob", operation, kind)


def test_roles_are_for_clusters_and_names() -> None:
    grant = Grant(Role.OPERATOR, ("alice",), clusters=("prod*",), names=("orders.*", "exact"))
    roles, elsewhere = Roles("prod-1", [grant]), Roles("test", [grant])

    assert may(roles, "alice", Operation.DELETE, TOPIC, "orders.eu")
    assert may(roles, "alice", Operation.DELETE, TOPIC, "exact")
    assert not may(roles, "alice", Operation.DESCRIBE, TOPIC, "exactly")
    assert not may(roles, "alice", Operation.DESCRIBE, TOPIC, "payments")
    assert not may(elsewhere, "alice", Operation.DESCRIBE, TOPIC, "orders.eu")


def test_role_on_some_names_allows_read_access_to_the_cluster() -> None:
    roles = Roles("here", [Grant(Role.ADMIN, ("alice",), names=("orders.*",))])

    assert may(roles, "alice", Operation.DESCRIBE, CLUSTER)
    assert not may(roles, "alice", Operation.ALTER, CLUSTER)
    assert not roles.allow(["User:alice"], ADMINISTER)


def test_a_read_only_console_has_readers_at_most() -> None:
    roles = Roles("here", [Grant(Role.ADMIN, ("alice",))], read_only=True)

    assert may(roles, "alice", Operation.READ, TOPIC)
    assert not may(roles, "alice", Operation.WRITE, TOPIC)
    assert not roles.allow(["User:alice"], ADMINISTER)


def test_groups_tokens_and_default_users_have_separate_roles() -> None:
    grants = [
        Grant(Role.READER, groups=("ops",)),
        Grant(Role.ADMIN, tokens=("ci",)),
        Grant(Role.VIEWER, ("*",)),
    ]
    roles = Roles("here", grants)
    read = Action(Operation.READ, TOPIC, "x")

    assert roles.allow(["User:alice", "Group:ops"], read)
    assert not roles.allow(["User:ops"], read)
    assert not roles.allow(["User:ci"], ADMINISTER)
    assert roles.allow(["Token:ci"], ADMINISTER)
    assert roles.allow(["User:anybody"], Action(Operation.DESCRIBE, TOPIC, "x"))


def test_each_role_has_all_of_the_one_before_it() -> None:
    for before, after in zip(list(Role), list(Role)[1:], strict=False):
        assert set(rights_of(before)) < set(rights_of(after))


def test_masks_of_several_rules_are_put_together() -> None:
    rules = [
        MaskRule(("pay*",), fields=("card.number",)),
        MaskRule(("payments",), ("prod",), fields=("card.number", "**.iban"), headers=("auth",)),
        MaskRule(("*",), ("test",), key=True),
    ]
    assert hidden_of(rules, "prod", "payments") == Hidden(("card.number", "**.iban"), ("auth",), False)
    assert hidden_of(rules, "test", "payroll") == Hidden(("card.number",), (), True)
    assert hidden_of(rules, "prod", "orders") == NOTHING
    assert not NOTHING


def test_patterns_are_names_or_beginnings() -> None:
    assert fits("orders.eu", ("orders.*",))
    assert fits("anything", ("*",))
    assert not fits("orders", ("orders.*",))
    assert not fits("x", ())


def test_a_token_is_known_by_its_digest_until_it_expires() -> None:
    token, digest = new_token()
    forever, over = ApiToken("ci", digest), ApiToken("ci", digest, expires=999.0)

    assert is_digest(digest)
    assert not is_digest(token)
    assert ApiTokens([forever], lambda: 1000.0).find(token) == forever
    assert ApiTokens([over], lambda: 1000.0).find(token) is None
    for wrong in ("", "x", token + "x", digest, "y" * 10_000):
        assert ApiTokens([forever], lambda: 1000.0).find(wrong) is None
