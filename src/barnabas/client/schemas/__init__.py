"""Client of a schema registry (Confluent's API): schemas by id, encoding and decoding of framed values.

client      requests; a schema never changes under its id, so a fetched schema is cached; `latest` asks each time
settings    address, login and CA of a registry: the one place that defines their settings
discovery   the registry that a cluster runs
serdes      values to and from plain Python, one at a time
formats     parsed schemas: Avro, Protobuf
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.client.schemas.client import AsyncSchemaClient as AsyncSchemaClient
    from barnabas.client.schemas.client import NotFramedError as NotFramedError
    from barnabas.client.schemas.client import RegistryError as RegistryError
    from barnabas.client.schemas.client import Schema as Schema
    from barnabas.client.schemas.client import SchemaClient as SchemaClient
    from barnabas.client.schemas.client import SchemaReference as SchemaReference
    from barnabas.client.schemas.client import SubjectVersion as SubjectVersion
    from barnabas.client.schemas.client import decode as decode
    from barnabas.client.schemas.client import encode as encode
    from barnabas.client.schemas.client import join_message_index as join_message_index
    from barnabas.client.schemas.client import split_message_index as split_message_index
    from barnabas.client.schemas.discovery import discover as discover
    from barnabas.client.schemas.discovery import discover_registry as discover_registry
    from barnabas.client.schemas.serdes import Encoder as Encoder
    from barnabas.client.schemas.serdes import IncompatibleValueError as IncompatibleValueError
    from barnabas.client.schemas.serdes import SchemaDecoder as SchemaDecoder
    from barnabas.client.schemas.serdes import plain as plain
    from barnabas.client.schemas.settings import BASIC_LOGIN as BASIC_LOGIN
    from barnabas.client.schemas.settings import BEARER_TOKEN as BEARER_TOKEN
    from barnabas.client.schemas.settings import NO_ACCOUNT as NO_ACCOUNT
    from barnabas.client.schemas.settings import REGISTRY_PREFIX as REGISTRY_PREFIX
    from barnabas.client.schemas.settings import REGISTRY_URL as REGISTRY_URL
    from barnabas.client.schemas.settings import RegistryAccount as RegistryAccount
    from barnabas.client.schemas.settings import check_registry_setting as check_registry_setting
    from barnabas.client.schemas.settings import is_registry_setting as is_registry_setting
    from barnabas.client.schemas.settings import is_secret_setting as is_secret_setting
    from barnabas.client.schemas.settings import parse_registry as parse_registry
else:
    __getattr__ = lazy_exports(__name__)
