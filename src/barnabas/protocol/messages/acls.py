"""Access control lists."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, int8, int16, int32, string


class DescribeAclsRequest(Message, api_key=29, versions="1-3", flexible="2+"):
    """Asks for the access rules that match a filter."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="1+")
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable="1+")
    host_filter: str | None = string(nullable="1+")
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Struct):
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    acls: list[AclDescription] = array(AclDescription)


class DescribeAclsResponse(Message, api_key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Message, api_key=30, versions="1-3", flexible="2+"):
    """Adds access rules."""

    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")


class CreateAclsResponse(Message, api_key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="1+")
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable="1+")
    host_filter: str | None = string(nullable="1+")
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsRequest(Message, api_key=31, versions="1-3", flexible="2+"):
    """Removes the access rules that match filters."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Message, api_key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
