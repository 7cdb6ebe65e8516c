"""Access control lists.

- DescribeAcls, versions 1 to 3: the ACLs that match a filter, by resource.
- CreateAcls, versions 1 to 3: each succeeds or fails alone, and is answered in the order of the request.
- DeleteAcls, versions 1 to 3: for each filter the ACLs that it matched, which are gone.

What one request changes is one entry of the metadata log, so a crash loses all of it or nothing. As with Kafka it may
change 10,000 ACLs (MAX_RECORDS_PER_USER_OP); more is POLICY_VIOLATION, and changes nothing.

Version 3 added the resource type USER (KIP-373). Without an authorizer all of them are refused, as by Kafka: ACLs that
nobody looks at would look like protection.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.controller import acls as decide
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.handlers.needs import HasConfig, HasController, HasImage
from barnabas.network.requests.time_slices import RequestTurn, at_once_or_in_turns
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
from barnabas.security.authz.acl_filters import AclFilter
from barnabas.security.authz.acls import AclBinding
from barnabas.security.authz.authorizer import ALLOW_ALL
from barnabas.common.cooperative import Steps, pieces

if TYPE_CHECKING:
    from barnabas.network.requests.dispatch import Dispatcher, Request

_DISABLED = KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


class AclsNeeds(HasConfig, HasController, HasImage, Protocol):
    """What these need of the broker."""

    @property
    def dispatcher(self) -> Dispatcher: ...


def _check_enabled(broker: AclsNeeds) -> None:
    if broker.dispatcher.security.authorizer is ALLOW_ALL:
        raise _DISABLED


# -- DescribeAcls ---------------------------------------------------------------------------------------


def describe_acls(
    broker: AclsNeeds, request: Request, message: DescribeAclsRequest
) -> DescribeAclsResponse | Coroutine[Any, Any, DescribeAclsResponse]:
    try:
        _check_enabled(broker)
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    return at_once_or_in_turns(request, _describing(broker.image.acls, _filter(message)))


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
        most = broker.config["barnabas.acls.max"]
        wanted = await turn.collect(message.creations, _checked)
        results = await broker.controller.submit(lambda image: decide.create_acls(image, wanted, most))
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
        matches = await turn.run(decide.matching(broker.image.acls, filters))
        results = await broker.controller.submit(lambda image: decide.delete_acls(image, matches))
    except KafkaError as error:
        results = [error] * len(message.filters)
    return await turn.run(_answering(results))


def _answering(results: list[decide.Match]) -> Steps[DeleteAclsResponse]:
    """A filter may have matched thousands."""
    response = DeleteAclsResponse()
    for result in results:
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
