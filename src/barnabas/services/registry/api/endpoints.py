"""Endpoints of the registry. `routes` lists their paths and required rights."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from barnabas.client.schemas.client import context_of
from barnabas.security.authz import Operation
from barnabas.services.registry import errors, settings, subjects
from barnabas.services.registry.access import allows_cluster, readable_subjects
from barnabas.services.registry.api.request import RawText, RegistryRequest
from barnabas.services.registry.model import Json, RegistryMode, SchemaText, SchemaType, Version
from barnabas.services.registry.subjects import DeletedFilter

Answer = Any
SLICE_SECONDS = 0.005  # CPU time between yields to the event loop
MAX_DIGITS = 10  # of an id, which has four bytes


async def root(request: RegistryRequest) -> Answer:
    return {}


async def leader_available(request: RegistryRequest) -> Answer:
    """Health check of Karapace: reports if a change could be written now."""
    leadership = request.service.store.leadership
    return {"master_available": leadership is not None and leadership.leader is not None}


# Subjects.


async def list_subjects(request: RegistryRequest) -> Answer:
    prefix = request.query.get("subjectPrefix", "")
    if request.context != ".":
        prefix = f":{request.context}:{prefix}"
    found = subjects.subjects_in(request.state, prefix, request.shown)
    return request.page(await readable_subjects(request.user, found))


async def list_versions(request: RegistryRequest) -> Answer:
    found = subjects.versions_of(request.state, request.subject, request.shown)
    return request.page([one.version for one in found])


async def get_version(request: RegistryRequest) -> Answer:
    version = subjects.find_version(request.state, request.subject, request.path["version"], request.shown)
    return await _shown(request, version)


async def get_version_text(request: RegistryRequest) -> Answer:
    version = subjects.find_version(request.state, request.subject, request.path["version"], request.shown)
    return RawText((await _shown(request, version))["schema"])


async def get_referenced_by(request: RegistryRequest) -> Answer:
    version = subjects.find_version(request.state, request.subject, request.path["version"])
    found = [one.id for one in request.state.referrers(version.subject, version.version)]
    return request.page(sorted(set(found)))


async def get_by_metadata(request: RegistryRequest) -> Answer:
    """Newest version with these metadata properties; `key=a&value=1&key=b&value=2` is parsed into two lists."""
    from barnabas.services.registry.merging import properties

    requested = dict(zip(request.query_list("key"), request.query_list("value"), strict=False))
    versions = subjects.versions_of(request.state, request.subject, request.shown)
    for version in reversed(versions):
        if requested.items() <= properties(version.schema).items():
            return await _shown(request, version)
    raise errors.schema_not_found()


async def register(request: RegistryRequest) -> Answer:
    schema, identity = await _schema(request)
    submitted = await request.service.submit(
        request.subject, schema, normalize=request.flag("normalize"), specified_id=identity
    )
    version = await request.service.register(request.subject, submitted)
    if request.wants_guid:
        return {"id": version.id, "version": version.version, "guid": version.guid}
    return {"id": version.id}


async def lookup(request: RegistryRequest) -> Answer:
    schema, _ = await _schema(request)
    shown = DeletedFilter(request.flag("deleted"))
    subjects.versions_of(
        request.state, request.subject, shown
    )  # an unknown subject is reported before any other error
    submitted = await request.service.submit(request.subject, schema, normalize=request.flag("normalize"))
    return await _shown(request, await request.service.lookup(request.subject, submitted, shown))


async def delete_subject(request: RegistryRequest) -> Answer:
    return await request.service.delete_subject(request.subject, permanent=request.flag("permanent"))


async def delete_version(request: RegistryRequest) -> Answer:
    return await request.service.delete_version(
        request.subject, request.path["version"], permanent=request.flag("permanent")
    )


# Schemas.


async def list_schemas(request: RegistryRequest) -> Answer:
    prefix = request.query.get("subjectPrefix", "") or ":*:"
    names = await readable_subjects(request.user, subjects.subjects_in(request.state, prefix, request.shown))
    found = []
    began = time.thread_time()
    for name in names:
        if time.thread_time() - began > SLICE_SECONDS:
            await asyncio.sleep(0)
            began = time.thread_time()
        versions = [one for one in request.state.versions(name).values() if request.shown(one)]
        shown = versions[-1:] if request.flag("latestOnly") else versions
        found += [one.to_json(with_guid=request.wants_guid) for one in shown]
    return request.page(found)


async def get_types(request: RegistryRequest) -> Answer:
    return [str(SchemaType.JSON), str(SchemaType.PROTOBUF), str(SchemaType.AVRO)]


async def get_by_id(request: RegistryRequest) -> Answer:
    version = await _with_id(request)
    answer = await _shown(request, version)
    for name in ("subject", "version", "id", "deleted"):
        answer.pop(name, None)
    if request.flag("includeSubjects"):  # an extension of Karapace
        answer["subjects"] = await get_subjects_of_id(request)
    if request.flag("fetchMaxId"):
        answer["maxId"] = request.state.highest_id(context_of(version.subject))
    return answer


async def get_text_by_id(request: RegistryRequest) -> Answer:
    return RawText((await _shown(request, await _with_id(request)))["schema"])


async def get_subjects_of_id(request: RegistryRequest) -> Answer:
    found = await _users(request)
    return request.page(sorted({one.subject for one in found}))


async def get_versions_of_id(request: RegistryRequest) -> Answer:
    found = [{"subject": one.subject, "version": one.version} for one in await _users(request)]
    return request.page(sorted(found, key=lambda one: (one["subject"], one["version"])))


async def get_by_guid(request: RegistryRequest) -> Answer:
    answer = await _shown(request, (await _with_guid(request))[0])
    for name in ("subject", "version", "id", "deleted"):
        answer.pop(name, None)
    return answer


async def get_ids_of_guid(request: RegistryRequest) -> Answer:
    found = await _with_guid(request)
    pairs = sorted({(context_of(one.subject), one.id) for one in found})
    return [{"context": context, "id": number} for context, number in pairs]


# Compatibility, configuration, modes, contexts.


async def check_all(request: RegistryRequest) -> Answer:
    older = request.state.live(request.subject)
    return await _check(request, older)


async def check_version(request: RegistryRequest) -> Answer:
    """Error 40402 for a missing version; without versions, any schema is compatible with `latest`."""
    number = subjects.parse_version(request.path["version"])
    if not request.state.live(request.subject):
        if number is not None:
            raise errors.version_not_found(number)
        return await _check(request, [])
    version = subjects.find_version(request.state, request.subject, request.path["version"])
    return await _check(request, [version])


async def get_config(request: RegistryRequest) -> Answer:
    return settings.get_config(
        request.state, request.scope, default_to_global=request.flag("defaultToGlobal")
    )


async def set_config(request: RegistryRequest) -> Answer:
    return await request.service.set_config(request.scope, request.document())


async def delete_config(request: RegistryRequest) -> Answer:
    return await request.service.delete_config(request.scope)


async def get_mode(request: RegistryRequest) -> Answer:
    return settings.get_mode(request.state, request.scope, default_to_global=request.flag("defaultToGlobal"))


async def set_mode(request: RegistryRequest) -> Answer:
    """Set a mode. IMPORT needs a right on the cluster even for one subject, as all subjects of a context share ids."""
    requested = request.document().get("mode")
    if str(requested).upper() == RegistryMode.IMPORT and not await allows_cluster(
        request.user, Operation.ALTER_CONFIGS
    ):
        raise errors.forbidden(Operation.ALTER_CONFIGS.name, "the cluster")
    return await request.service.set_mode(request.scope, requested, force=request.flag("force"))


async def delete_mode(request: RegistryRequest) -> Answer:
    return await request.service.delete_mode(request.scope)


async def list_contexts(request: RegistryRequest) -> Answer:
    names = await readable_subjects(request.user, list(request.state.subjects()))
    seen = {".", *map(context_of, names)}
    return request.page([one for one in request.state.contexts() if one in seen])


async def _schema(request: RegistryRequest) -> tuple[SchemaText, tuple[int | None, int | None]]:
    """Schema in the body. The user must be able to read its references, as errors would reveal their contents."""
    schema, identity = await request.schema()
    named = [one.subject for one in schema.references]
    readable = set(await readable_subjects(request.user, named))
    for subject in named:
        if subject not in readable:
            raise errors.forbidden(Operation.READ.name, f"subject {subject}")
    return schema, identity


async def _check(request: RegistryRequest, older: list[Version]) -> Json:
    schema, _ = await _schema(request)
    submitted = await request.service.submit(request.subject, schema, normalize=request.flag("normalize"))
    await request.service.check_new(request.subject, submitted)
    found = await request.service.problems(request.subject, submitted, older, None)
    answer: Json = {"is_compatible": not found}
    if found or request.flag("verbose"):
        answer["messages"] = found
    return answer


async def _shown(request: RegistryRequest, version: Version) -> Json:
    answer = version.to_json(with_guid=request.wants_guid)
    requested = request.query.get("format", "")
    if requested:
        answer["schema"] = await request.service.rendered(version, requested)
    return answer


async def _users(request: RegistryRequest) -> list[Version]:
    """Versions with the id that the user may read; 40403 for an unknown id."""
    number = _id(request)
    found = request.state.users_of(request.context_of_query(), number)
    if not found:
        raise errors.schema_not_found(number)
    readable = set(await readable_subjects(request.user, [one.subject for one in found]))
    if not readable:
        raise errors.forbidden("READ", f"the subjects of schema {number}")
    return [one for one in found if request.shown(one) and one.subject in readable]


async def _with_id(request: RegistryRequest) -> Version:
    """Version with the id, including soft-deleted ones: records written with the schema may still exist."""
    number, context = _id(request), request.context_of_query()
    found = request.state.users_of(context, number)
    if not found:
        raise errors.schema_not_found(number)
    readable = set(await readable_subjects(request.user, [one.subject for one in found]))
    if not readable:
        raise errors.forbidden("READ", f"the subjects of schema {number}")
    first: SchemaText | None = request.state.schema(context, number)
    allowed = [one for one in found if one.subject in readable]
    return next((one for one in allowed if one.schema == first), allowed[0])


async def _with_guid(request: RegistryRequest) -> list[Version]:
    guid = request.path["guid"]
    found = request.state.with_guid(guid)
    if not found:
        raise errors.schema_not_found(guid)
    readable = set(await readable_subjects(request.user, [one.subject for one in found]))
    if not readable:
        raise errors.forbidden("READ", f"the subjects of schema {guid}")
    return [one for one in found if one.subject in readable]


def _id(request: RegistryRequest) -> int:
    text = request.path["id"]
    if not text.isascii() or not text.isdecimal():
        raise errors.http_error(404)
    if len(text.lstrip("0")) > MAX_DIGITS:
        raise errors.schema_not_found(f"{text[:MAX_DIGITS]}...")
    return int(text)
