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
        logs,
        metrics,
        overview,
        topics,
    )
    from barnabas.services.console.pages import list_parts as search
    from barnabas.services.console.pages.access import acls, api, audit, login, quotas, settings, users
    from barnabas.services.console.pages.access import permissions as may
    from barnabas.services.console.pages.cluster.table import routes as of_the_cluster
    from barnabas.services.console.pages.records import chart, exporting, listing, one, producing, tail
    from barnabas.services.console.pages.topic.table import routes as of_a_topic

    figures = (search, overview, topics, groups, group_offsets, curves, alarms, metrics)
    records = (listing, one, tail, exporting, chart, producing)
    access = (login, acls, may, users, quotas, audit, settings, api)
    subjects = [module.routes for module in (*figures, *records, logs, flows, *access)]
    return PageTable([*subjects, of_a_topic, of_the_cluster])
