"""Interface of authorizers, after Kafka's Authorizer.

Without an authorizer (`ALLOW_ALL`) every operation is allowed and no request is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode
from barnabas.security.context import SELF, RequestContext


class Operation(IntEnum):
    """Kafka's numbers (`AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """Kafka's numbers (`org.apache.kafka.common.resource.ResourceType`)."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME = "kafka-cluster"

DENIED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


DENIAL_TEXTS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
}
"""Kafka's messages, for responses that carry one."""


class Action(NamedTuple):
    """An operation on a resource."""

    operation: Operation
    resource_type: ResourceType
    name: str = CLUSTER_NAME

    @property
    def error(self) -> ErrorCode:
        """Error code of the response if this action is denied."""
        return DENIED[self.resource_type]


class Decisions(Protocol):
    """Rights of one client, cached per action."""

    def __getitem__(self, action: Action, /) -> bool: ...


class Authorizer(Protocol):
    def decisions(self, context: RequestContext) -> Decisions:
        """Return the rights of a request's sender according to the current ACLs."""
        ...

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """True if the operation is allowed on at least one resource of the type (KIP-679)."""
        ...


class Everything:
    """Rights of a client that may do everything."""

    def __getitem__(self, action: Action, /) -> bool:
        return True


EVERYTHING = Everything()


class AllowAll:
    """Authorizer of a cluster without `authorizer.class.name`."""

    def decisions(self, context: RequestContext) -> Decisions:
        return EVERYTHING

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return True


ALLOW_ALL = AllowAll()


class Access:
    """Rights of one request, according to the ACLs at its arrival."""

    __slots__ = ("_authorizer", "_decisions", "context")

    def __init__(self, authorizer: Authorizer, context: RequestContext) -> None:
        self._authorizer = authorizer
        self._decisions = authorizer.decisions(context)
        self.context = context

    def allows(self, action: Action) -> bool:
        return self._decisions[action]

    def tell(self, action: Action, is_allowed: bool) -> None:
        """Report a decision about the request. The audit log overrides this."""

    def allows_any(self, actions: Sequence[Action]) -> bool:
        return any(map(self.allows, actions))

    def allows_somewhere(self, operation: Operation, resource_type: ResourceType) -> bool:
        return self._authorizer.authorize_by_resource_type(self.context, operation, resource_type)

    def may_describe(self, topic: str) -> bool:
        return self.allows(Action(Operation.DESCRIBE, ResourceType.TOPIC, topic))

    def operations(self, of: Sequence[Operation], resource_type: ResourceType, name: str) -> int:
        """Allowed operations as the bit field of responses (KIP-430)."""
        return sum(1 << each for each in of if self.allows(Action(each, resource_type, name)))


class FullAccess(Access):
    """Rights of every request without an authorizer."""

    __slots__ = ()

    def allows(self, action: Action) -> bool:
        return True

    def may_describe(self, topic: str) -> bool:
        return True


FULL_ACCESS = FullAccess(ALLOW_ALL, SELF)
