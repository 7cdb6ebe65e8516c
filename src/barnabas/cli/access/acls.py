"""`barnabas acls`: access control lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Output, OutputFormat, Yes, confirm, with_client
from barnabas.cli.output import count, show_done, show_json, show_rows

if TYPE_CHECKING:
    from barnabas.client import Client
    from barnabas.client.access import Pattern
    from barnabas.security.authz import AclFilter
    from barnabas.security.authz.acls import AclBinding

app = typer.Typer(
    help="Manage ACLs by principal and resource. The brokers need authorizer.class.name.",
    no_args_is_help=True,
)

COLUMNS = ("permission", "principal", "operation", "resource", "name", "host")
NAMED = "A trailing * matches a prefix, a * alone matches every name. May be repeated."

PrincipalArgument = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="For example User:alice; User:* matches every principal.")
]
OperationsArgument = Annotated[
    str,
    typer.Argument(
        metavar="OPERATIONS",
        help="Comma-separated: read, write, create, delete, alter, describe, describe-configs, alter-configs, "
        "cluster-action, idempotent-write, create-tokens, describe-tokens, two-phase-commit, all.",
    ),
]
Topics = Annotated[list[str] | None, typer.Option("--topic", "-t", metavar="NAME", help=f"Topics. {NAMED}")]
Groups = Annotated[list[str] | None, typer.Option("--group", "-g", metavar="NAME", help=f"Groups. {NAMED}")]
Transactions = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="Transactional ids; patterns as for --topic."),
]
Users = Annotated[
    list[str] | None,
    typer.Option("--user", metavar="PRINCIPAL", help="Owner of delegation tokens, for example User:bob."),
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="ADDRESS", help="Limit the rule to this address or network (10.0.0.0/8)."),
]


@contextmanager
def usage() -> Iterator[None]:
    """Report unknown operations, principals and resources as usage errors."""
    from barnabas.client.access import AclSyntaxError

    try:
        yield
    except AclSyntaxError as error:
        raise typer.BadParameter(str(error), param_hint=f"--{error.field}" if error.field else None) from None


@app.command()
def allow(
    principal: PrincipalArgument,
    operations: OperationsArgument,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: Transactions = None,
    users: Users = None,
    cluster: Cluster = False,
    hosts: Hosts = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Allow a principal operations on resources. Each resource type gets the operations that apply to it.

    Read, write, delete and alter include describe; alter-configs includes describe-configs.

    Examples:

      barnabas acls allow User:alice read,write --topic 'orders.*' --group orders

      barnabas acls allow User:metrics describe --cluster --host 10.0.0.0/8
    """
    _add(
        bootstrap,
        output,
        "ALLOW",
        principal,
        operations,
        (topics, groups, transactional_ids, users),
        cluster,
        hosts,
    )


@app.command()
def deny(
    principal: PrincipalArgument,
    operations: OperationsArgument,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: Transactions = None,
    users: Users = None,
    cluster: Cluster = False,
    hosts: Hosts = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Deny a principal operations on resources. A deny rule overrides every allow rule.

    Example:

      barnabas acls deny User:eve all --topic '*' --group '*' --cluster
    """
    _add(
        bootstrap,
        output,
        "DENY",
        principal,
        operations,
        (topics, groups, transactional_ids, users),
        cluster,
        hosts,
    )


def _add(
    bootstrap: str,
    output: OutputFormat,
    permission: str,
    principal: str,
    operations: str,
    named: tuple[list[str] | None, list[str] | None, list[str] | None, list[str] | None],
    cluster: bool,
    hosts: list[str] | None,
) -> None:
    from barnabas.client.access import acls
    from barnabas.client.access import acls as words
    from barnabas.security.authz.acls import Permission

    with usage():
        wanted = words.bindings(
            words.check_principal(principal),
            words.operations(operations),
            words.patterns(*named, cluster=cluster),
            words.check_hosts(hosts),
            Permission[permission],
        )
    with_client(bootstrap, lambda client: acls.create_acls(client, wanted))
    show_rows(output, [words.row(acl) for acl in wanted], COLUMNS)


@app.command("list")
def list_acls(
    principal: Annotated[
        str | None,
        typer.Option("--principal", "-p", metavar="PRINCIPAL", help="Only rules of this principal."),
    ] = None,
    topics: Annotated[
        str | None, typer.Option("--topic", "-t", metavar="NAME", help="Only rules that match this topic.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option("--group", "-g", metavar="NAME", help="Only rules that match this group.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List ACLs: all, those of a principal, or those that match a topic or group.

    Examples:

      barnabas acls list --principal User:alice

      barnabas acls list --topic orders.eu
    """
    from barnabas.client.access import acls
    from barnabas.client.access import acls as words

    rules = with_client(
        bootstrap, lambda client: acls.describe_acls(client, _selected(principal, topics, groups))
    )
    show_rows(output, [words.row(acl) for acl in rules], COLUMNS, empty="No matching rules.")


def _selected(principal: str | None, topic: str | None, group: str | None) -> AclFilter:
    from barnabas.security.authz import AclFilter, ResourceType
    from barnabas.security.authz.acls import PatternType

    wanted = AclFilter(principal=principal)
    if topic is not None and group is not None:
        raise typer.BadParameter("give --topic or --group, not both")
    if topic is not None or group is not None:
        kind = ResourceType.TOPIC if topic is not None else ResourceType.GROUP
        wanted = wanted._replace(resource_type=kind, name=topic or group, pattern_type=PatternType.MATCH)
    return wanted


@app.command()
def remove(
    principal: PrincipalArgument,
    operations: Annotated[
        str | None, typer.Argument(metavar="[OPERATIONS]", help="Only rules for these operations [all].")
    ] = None,
    topics: Topics = None,
    groups: Groups = None,
    transactional_ids: Transactions = None,
    users: Users = None,
    cluster: Cluster = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Remove the rules of a principal on the given resources. Name each resource exactly as the rule does.

    Without a resource, all rules of the principal are removed. Allow and deny rules are both removed.

    Examples:

      barnabas acls remove User:alice write --topic 'orders.*'

      barnabas acls remove User:alice --yes
    """
    from barnabas.client.access import acls
    from barnabas.client.access import acls as words
    from barnabas.security.authz import AclFilter

    with usage():
        on = words.patterns(topics, groups, transactional_ids, users, cluster=cluster)
        numbers = [] if operations is None else words.operations(operations)
        filters = _exactly(words.check_principal(principal), on, numbers)

    async def find(client: Client) -> list[AclBinding]:
        found = await acls.describe_acls(client, AclFilter(principal=principal))
        return [acl for acl in found if any(each.matches(acl) for each in filters)]

    found = with_client(bootstrap, find)
    if found:
        confirm(f"Remove {count(len(found), 'rule')} of {principal}?", yes)
        found = with_client(bootstrap, lambda client: acls.delete_acls(client, filters))
    show_rows(output, [words.row(acl) for acl in found], COLUMNS, empty="No matching rules.")


def _exactly(principal: str, on: list[Pattern], operations: list[int]) -> list[AclFilter]:
    """Filters that match exactly these patterns, or all of them if none are given."""
    from barnabas.security.authz import ANY, AclFilter

    wanted = AclFilter(principal=principal)
    resources = [
        wanted._replace(resource_type=kind, name=name, pattern_type=pattern) for kind, name, pattern in on
    ]
    return [
        each._replace(operation=operation)
        for each in resources or [wanted]
        for operation in operations or [ANY]
    ]


@app.command()
def explain(
    principal: PrincipalArgument,
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="One operation, such as write.")],
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The topic, or a resource of --kind; omit it for the cluster."),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            "--kind", "-k", help="topic, group, cluster, transactional-id, delegation-token or user."
        ),
    ] = "topic",
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="The client's address.")
    ] = "127.0.0.1",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show whether a principal is allowed an operation, and which rule decides.

    Examples:

      barnabas acls explain User:alice write orders

      barnabas acls explain User:alice read payments --kind group --host 10.0.0.7
    """
    from barnabas.client.access import explained

    with usage():
        facts = with_client(
            bootstrap, lambda client: explained(client, principal, operation, kind, name, host)
        )
    if output is OutputFormat.JSON:
        show_json(facts)
    else:
        show_done(output, f"{'allowed' if facts['allowed'] else 'denied'}: {facts['because']}", facts)
