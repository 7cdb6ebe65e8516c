"""ACLs, by the requests of Kafka's Admin. A refusal is a KafkaError with its reason."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.cluster import Client, raise_for
from barnabas.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from barnabas.security.authz.acl_filters import AclFilter
from barnabas.security.authz.acls import AclBinding


async def describe_acls(client: Client, wanted: AclFilter) -> list[AclBinding]:
    response: DescribeAclsResponse = await client.send_to_any(DescribeAclsRequest(*wanted))
    raise_for(response.error_code, response.error_message or "")
    return sorted(
        AclBinding(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in response.resources
        for acl in resource.acls
    )


async def create_acls(client: Client, wanted: Iterable[AclBinding]) -> None:
    """One that is there already stays."""
    creations = [
        AclCreation(
            acl.resource_type,
            acl.name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission,
        )
        for acl in wanted
    ]
    response: CreateAclsResponse = await client.send_to_controller(CreateAclsRequest(creations))
    for result in response.results:
        raise_for(result.error_code, result.error_message or "")


async def delete_acls(client: Client, filters: Iterable[AclFilter]) -> list[AclBinding]:
    """Those that are gone."""
    request = DeleteAclsRequest([DeleteAclsFilter(*each) for each in filters])
    response: DeleteAclsResponse = await client.send_to_controller(request)
    for result in response.filter_results:
        raise_for(result.error_code, result.error_message or "")
    gone = (acl for result in response.filter_results for acl in result.matching_acls)
    return sorted(
        {
            AclBinding(
                acl.resource_type,
                acl.resource_name,
                acl.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for acl in gone
        }
    )
