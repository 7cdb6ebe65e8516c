"""Rights that routes need: ACL operations on the resource named in the path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.client.schemas.client import topic_of
from barnabas.security.authz import CLUSTER_NAME, Action, Operation, ResourceType

ADMINISTER = Action(Operation.ALTER, ResourceType.USER)
"""Right of the console's admin role: manage access and masks. Brokers have no equivalent; if users log in with their
own Kafka credentials, it maps to ALTER on the cluster, which also allows changing ACLs."""


@dataclass(frozen=True, slots=True)
class PageNeed:
    operation: Operation
    resource_type: ResourceType
    parameter: str = ""
    """Path parameter with the resource name; empty for the cluster."""
    name: str = CLUSTER_NAME
    """Fixed resource name, used without a parameter."""
    is_subject: bool = False
    """True if the parameter is a subject of the schema registry: the right is on its topic."""

    def action(self, parameters: Mapping[str, object]) -> Action:
        name = str(parameters[self.parameter]) if self.parameter else self.name
        name = topic_of(name) if self.is_subject else name
        return Action(self.operation, self.resource_type, name)

    def __str__(self) -> str:
        if self.action({self.parameter: ""}) == ADMINISTER:
            return "the role admin"
        named = "the cluster" if self.resource_type is ResourceType.CLUSTER else self.name
        on = f"{{{self.parameter}}}" if self.parameter else named
        on = f"of {on}" if self.is_subject else on
        kind = "" if self.resource_type is ResourceType.CLUSTER else f"{self.resource_type.name} "
        return f"{self.operation.name} on {kind}{on}"


@dataclass(frozen=True, slots=True)
class Needs:
    """Rights that are all required. `note` documents the checks of a page without a resource in its path."""

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
    """Need a right on a fixed topic."""
    return Needs((PageNeed(operation, ResourceType.TOPIC, name=name),))


def subject(operation: Operation) -> Needs:
    """Need a right on the topic of the subject in the path."""
    return Needs((PageNeed(operation, ResourceType.TOPIC, "subject", is_subject=True),))


def group(operation: Operation, parameter: str = "group") -> Needs:
    return Needs((PageNeed(operation, ResourceType.GROUP, parameter),))


def transactional_id(operation: Operation, parameter: str = "transactional_id") -> Needs:
    return Needs((PageNeed(operation, ResourceType.TRANSACTIONAL_ID, parameter),))


def cluster(operation: Operation) -> Needs:
    return Needs((PageNeed(operation, ResourceType.CLUSTER),))


def administer() -> Needs:
    """Need the admin role, in addition to the rights that the brokers check."""
    return Needs((PageNeed(ADMINISTER.operation, ADMINISTER.resource_type),))


SHOWN = Needs(note="a login; what may not be described is left out")
"""For lists: the page filters by the user's rights (`ConsoleUser.allowed`)."""

CHECKED = Needs(note="a login; the right on what the form names is checked by the page")
"""For actions on several resources: the page checks each one (`Context.demand`)."""

SIGNED_IN = Needs(note="a login")

NOBODY = Needs(note="nothing", without_login=True)
"""For the login page."""
