"""Reading and changing the configuration of topics, brokers, groups and client metrics."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class DescribeConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable="1+")


class DescribeConfigsRequest(Message, api_key=32, versions="1-4", flexible="4+"):
    """Asks for settings, their source and their synonyms."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean("3+")


class DescribeConfigsSynonym(Struct):
    name: str = string()
    value: str | None = string(nullable="1+")
    source: int = int8()


class DescribeConfigsResourceResult(Struct):
    name: str = string()
    value: str | None = string(nullable="1+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="3+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="1+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Message, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)


class AlterConfigsAlterableConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")


class AlterConfigsAlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterConfigsAlterableConfig] = array(AlterConfigsAlterableConfig)


class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    """Replaces all dynamic settings of resources."""

    resources: list[AlterConfigsAlterConfigsResource] = array(AlterConfigsAlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsResponse(Message, api_key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


class IncrementalAlterConfigsAlterableConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


class IncrementalAlterConfigsAlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[IncrementalAlterConfigsAlterableConfig] = array(IncrementalAlterConfigsAlterableConfig)


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    """Sets, deletes, appends to or subtracts from single settings (KIP-339)."""

    resources: list[IncrementalAlterConfigsAlterConfigsResource] = array(
        IncrementalAlterConfigsAlterConfigsResource
    )
    validate_only: bool = boolean()


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


class ListConfigResourcesRequest(Message, api_key=74, versions="0-1", flexible="0+"):
    """Lists resources with configs (KIP-1142)."""

    resource_types: list[int] = array(int8, "1+")


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Message, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
