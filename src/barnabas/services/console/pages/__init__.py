"""Routes of the console; one module per subject."""

from __future__ import annotations

from barnabas.services.console.routes import PageTable


def route_table() -> PageTable:
    """Return all routes. Pages are imported when a console is created, not when this package is imported."""
    from barnabas.services.console.pages import (
        alarms,
        curves,
        flows,
        group_offsets,
        groups,
        lineage,
        list_parts,
        logs,
        metrics,
        overview,
        topics,
    )
    from barnabas.services.console.pages.access import (
        acls,
        api,
        audit,
        login,
        permissions,
        quotas,
        settings,
        users,
    )
    from barnabas.services.console.pages.cluster import (
        broker_config,
        brokers,
        dead_letters,
        mirrors,
        moves,
        tiering,
        transactions,
    )
    from barnabas.services.console.pages.records import chart, listing, one, producing
    from barnabas.services.console.pages.schemas import checking, subjects
    from barnabas.services.console.pages.topic import bulk, changing, config, summary

    figures = (list_parts, overview, topics, groups, group_offsets, curves, alarms, metrics)
    records = (listing, one, chart, producing)
    schemas = (subjects, checking)
    access = (login, acls, permissions, users, quotas, audit, settings, api)
    topic = (summary, config, changing, bulk)
    cluster = (broker_config, brokers, moves, dead_letters, transactions, tiering, mirrors)
    every = (*figures, *records, *schemas, logs, flows, lineage, *access, *topic, *cluster)
    return PageTable(module.routes for module in every)
