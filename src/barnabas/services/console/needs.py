"""Rights that routes need: ACL operations on the resource named in the path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.security.authz import CLUSTER_NAME, Action, Operation, ResourceType

ADMINISTER = Action(Operation.ALTER, ResourceType.USER)
"""Of the console's role admin: access of others, and what is masked. Brokers know no such right; with a login as
oneself it is ALTER on the cluster, with which one can change ACLs."""


@dataclass(frozen=True, slots=True)
class PageNeed:
    operation: Operation
    resource_type: ResourceType
    parameter: str = ""
    """The parameter that names the resource; nothing for the cluster itself."""
    name: str = CLUSTER_NAME
    """Of the resource, where no parameter names it."""

    def action(self, parameters: Mapping[str, object]) -> Action:
        name = str(parameters[self.parameter]) if self.parameter else self.name
        return Action(self.operation, self.resource_type, name)

    def __str__(self) -> str:
        if self.action({self.parameter: ""}) == ADMINISTER:
            return "the role admin"
        named = "the cluster" if self.resource_type is ResourceType.CLUSTER else self.name
        on = f"{{{self.parameter}}}" if self.parameter else named
        kind = "" if self.resource_type is ResourceType.CLUSTER else f"{self.resource_type.name} "
        return f"{self.operation.name} on {kind}{on}"


@dataclass(frozen=True, slots=True)
class Needs:
    """All of `all_of`. `note` says what a page without a resource in its path does about rights."""

    all_of: tuple[PageNeed, ...] = ()
    note: str = ""
    without_login: bool = False

    def __and__(self, other: Needs) -> Needs:
        return Needs(self.all_of + other.all_of, self.note or other.note, self.without_login)

    def __str__(self) -> str:
        return ", ".join(map(str, self.all_of)) or self.note


def topic(operation: Operation, parameter: str = "topic") -> Needs:
    return Needs((PageNeed(operation, ResourceType.TOPIC, parameter),))


def topic_named(operation: Operation, name: str) -> Needs:
    """Always the same one."""
    return Needs((PageNeed(operation, ResourceType.TOPIC, name=name),))


def group(operation: Operation, parameter: str = "group") -> Needs:
    return Needs((PageNeed(operation, ResourceType.GROUP, parameter),))


def transactional_id(operation: Operation, parameter: str = "transactional_id") -> Needs:
    return Needs((PageNeed(operation, ResourceType.TRANSACTIONAL_ID, parameter),))


def cluster(operation: Operation) -> Needs:
    return Needs((PageNeed(operation, ResourceType.CLUSTER),))


def administer() -> Needs:
    """In addition to the right that the brokers check."""
    return Needs((PageNeed(ADMINISTER.operation, ADMINISTER.resource_type),))


SHOWN = Needs(note="a login; what may not be described is left out")
"""For lists: the page itself leaves out what the user may not see (`ConsoleUser.allowed`)."""

CHECKED = Needs(note="a login; the right on what the form names is checked by the page")
"""For actions on many resources: the page itself asks (`Context.demand`)."""

SIGNED_IN = Needs(note="a login")

NOBODY = Needs(note="nothing", without_login=True)
"""The login itself."""
