"""Client quotas of a cluster: limits of users, client ids and IP addresses."""

from __future__ import annotations

import msgspec

from barnabas.client.access import alter_quotas, describe_quotas
from barnabas.security.authz import Operation
from barnabas.security.quotas.filters import DEFAULT, QuotaEntity
from barnabas.services.console.context import RequestScope
from barnabas.services.console.errors import BadInputError
from barnabas.services.console.needs import administer, cluster
from barnabas.services.console.pages.access.acls import may_administer
from barnabas.services.console.routes import ActionResult, NavigationEntry, Routes

routes = Routes()

EVERYBODY_ELSE = "default"
"""Entities of a type without a specific quota."""
OF_CLIENTS = {
    "producer_byte_rate": "bytes produced in a second",
    "consumer_byte_rate": "bytes fetched in a second",
    "request_percentage": "percent of the time of one thread",
    "controller_mutation_rate": "changes of topics and partitions in a second",
}
OF_ADDRESSES = {"connection_creation_rate": "new connections in a second"}
LIMITS = OF_CLIENTS | OF_ADDRESSES


class QuotasQuery(msgspec.Struct):
    q: str = ""


class Quota(msgspec.Struct):
    user: str | None
    client_id: str | None
    ip: str | None
    limits: dict[str, float]


class QuotasPage(msgspec.Struct):
    quotas: list[Quota]
    may_change: bool
    limits: dict[str, str]


class QuotaForm(msgspec.Struct):
    """`default` covers all entities of a type without a specific quota. An empty value removes the limit."""

    limit: str
    value: float | None = None
    user: str = ""
    client_id: str = ""
    ip: str = ""


@routes.page(
    "/access/quotas",
    needs=cluster(Operation.DESCRIBE_CONFIGS),
    template="access/quotas.html",
    entry=NavigationEntry("Quotas", "q", 92, "quotas", "Access"),
)
async def show_quotas(context: RequestScope, query: QuotasQuery) -> QuotasPage:
    """Quotas of users, client ids and IP addresses."""
    found = await describe_quotas(context.client)
    rows = [
        Quota(_word(entity.user), _word(entity.client_id), _word(entity.ip), values)
        for entity, values in sorted(found.items(), key=lambda pair: repr(pair[0]))
    ]
    shown = [row for row in rows if query.q.lower() in f"{row.user} {row.client_id} {row.ip}".lower()]
    may_change = await may_administer(context, Operation.ALTER_CONFIGS)
    return QuotasPage(shown, may_change, LIMITS)


@routes.action("/access/quotas", needs=cluster(Operation.ALTER_CONFIGS) & administer())
async def set_quota(context: RequestScope, form: QuotaForm) -> ActionResult:
    """Set or remove one limit."""
    entity = _entity(form)
    await alter_quotas(context.client, entity, {form.limit: form.value})
    done = "is removed" if form.value is None else f"is {form.value:g}"
    return ActionResult(f"The limit {form.limit} {done}", "/access/quotas")


def _entity(form: QuotaForm) -> QuotaEntity:
    if form.limit not in LIMITS:
        raise BadInputError(f"is none of {', '.join(LIMITS)}", "limit")
    if form.ip and (form.user or form.client_id):
        raise BadInputError("a quota for an address cannot also name a user or a client id", "ip")
    if not (form.ip or form.user or form.client_id):
        raise BadInputError("enter a user, a client id or an address", "user")
    if bool(form.ip) != (form.limit in OF_ADDRESSES):
        raise BadInputError("this limit is for " + ("clients" if form.ip else "addresses"), "limit")
    if form.value is not None and form.value <= 0:
        raise BadInputError("must be more than 0", "value")
    return QuotaEntity(*(_name(each) if each else None for each in (form.user, form.client_id, form.ip)))


def _name(values: str) -> str:
    return DEFAULT if values == EVERYBODY_ELSE else values


def _word(name: str | None) -> str | None:
    return EVERYBODY_ELSE if name == DEFAULT else name
