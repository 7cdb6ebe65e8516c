"""ACLs: describe, create, delete.

- DescribeAcls, versions 1 to 3: the ACLs that match a filter, by resource.
- CreateAcls, versions 1 to 3: each succeeds or fails independently; results are in the order of the request.
- DeleteAcls, versions 1 to 3: for each filter the ACLs that it matched and that were deleted.

The changes of one request are one entry of the metadata log, so they are atomic. As in Kafka a request may change
10,000 ACLs (MAX_RECORDS_PER_USER_OP); more is POLICY_VIOLATION, and changes nothing.

Version 3 added the resource type USER (KIP-373). Without an authorizer all of them are refused, as in
Kafka: ACLs that are not enforced would look like protection.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.common.cooperative import Steps, pieces
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.controller import acls as decide
from barnabas.handlers.needs import HasConfig, HasController, HasImage
from barnabas.network.requests import ELEMENTS_AT_ONCE, RequestTurn, Result, run_or_continue_in_slices
from barnabas.protocol.messages.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from barnabas.protocol.wire import STEP
from barnabas.security.authz import ALLOW_ALL, AclFilter
from barnabas.security.authz.acls import AclBinding

if TYPE_CHECKING:
    from barnabas.network.requests import Dispatcher, Request

TRIES = 5
"""Attempts; ACLs may change while changes are planned, so the last plan is made in the deciding step."""


class AclsNeeds(HasConfig, HasController, HasImage, Protocol):
    """Broker attributes used by the ACL handlers."""

    @property
    def dispatcher(self) -> Dispatcher: ...


def _check_enabled(broker: AclsNeeds) -> None:
    if broker.dispatcher.security.authorizer is ALLOW_ALL:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


async def _change(broker: AclsNeeds, turn: RequestTurn, plan: decide.AclPlan) -> list[Any]:
    """Execute a plan on the controller, and plan again in steps if ACLs have changed meanwhile."""
    for left in reversed(range(TRIES)):
        results = await broker.controller.submit(partial(decide.change_acls, plan=plan, in_one_step=not left))
        if not isinstance(results, frozenset):
            return results
        plan = await turn.run(plan.again(results))
    raise AssertionError("the last try is in one step")


# -- DescribeAcls ---------------------------------------------------------------------------------------


def describe_acls(
    broker: AclsNeeds, request: Request, message: DescribeAclsRequest
) -> Result[DescribeAclsResponse]:
    try:
        _check_enabled(broker)
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    return run_or_continue_in_slices(request, _describing(broker.image.acls, _filter(message)))


def _describing(acls: Iterable[AclBinding], wanted: AclFilter) -> Steps[DescribeAclsResponse]:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for number, piece in enumerate(pieces(acls)):
        if number:
            yield
        for acl in wanted.select(piece):
            pattern = acl.resource_type, acl.name, acl.pattern_type
            resource = resources.get(pattern)
            if resource is None:
                resource = resources[pattern] = DescribeAclsResource(*pattern, acls=[])
            resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))
    return DescribeAclsResponse(resources=list(resources.values()))


def _filter(message: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        message.resource_type_filter,
        message.resource_name_filter,
        message.pattern_type_filter,
        message.principal_filter,
        message.host_filter,
        message.operation,
        message.permission_type,
    )


# -- CreateAcls -----------------------------------------------------------------------------------------


async def create_acls(broker: AclsNeeds, request: Request, message: CreateAclsRequest) -> CreateAclsResponse:
    results: list[KafkaError | None]
    turn = RequestTurn()
    try:
        _check_enabled(broker)
        limit = broker.config["barnabas.acls.max"]
        wanted = await turn.collect(message.creations, _checked)
        plan = await turn.run(decide.create_acls(broker.image.acls, wanted, limit))
        results = await _change(broker, turn, plan)
    except KafkaError as error:
        results = [error] * len(message.creations)
    return CreateAclsResponse(results=await turn.collect(results, _creation_result))


def _checked(creation: AclCreation) -> AclBinding | KafkaError:
    return decide.checked(
        AclBinding(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
    )


def _creation_result(error: KafkaError | None) -> AclCreationResult:
    return AclCreationResult() if error is None else AclCreationResult(error.code, error.message)


# -- DeleteAcls -----------------------------------------------------------------------------------------


async def delete_acls(broker: AclsNeeds, request: Request, message: DeleteAclsRequest) -> DeleteAclsResponse:
    results: list[decide.Match]
    turn = RequestTurn()
    try:
        _check_enabled(broker)
        filters = await turn.collect(message.filters, _filter)
        plan = await turn.run(decide.delete_acls(broker.image.acls, filters))
        results = await _change(broker, turn, plan)
    except KafkaError as error:
        results = [error] * len(message.filters)
    request.is_large = request.is_large or _matched(results) > ELEMENTS_AT_ONCE
    return await turn.run(_answering(results))


def _matched(results: list[decide.Match]) -> int:
    return sum(len(result) for result in results if not isinstance(result, KafkaError))


def _answering(results: list[decide.Match]) -> Steps[DeleteAclsResponse]:
    """Build the response in steps: thousands of filters may match thousands of ACLs."""
    response = DeleteAclsResponse()
    for number, result in enumerate(results, 1):
        if not number % STEP:
            yield
        if isinstance(result, KafkaError):
            response.filter_results.append(DeleteAclsFilterResult(result.code, result.message))
            continue
        answer = DeleteAclsFilterResult(error_message=None, matching_acls=[])
        for piece in pieces(result):
            answer.matching_acls += map(_deleted, piece)
            yield
        response.filter_results.append(answer)
    return response


def _deleted(acl: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
