"""All routes of the console. Each module here has those of one subject."""

from __future__ import annotations

from barnabas.console.routes import RouteTable


def route_table() -> RouteTable:
    """Imports the pages when a console is made, not when somebody asks for a name of this package."""
    from barnabas.console.pages import flows, logs, places
    from barnabas.console.pages.records import chart, exporting, listing, one, producing, tail

    records = (listing, one, tail, exporting, chart, producing)
    modules = (places.routes, *(each.routes for each in records), logs.routes, flows.routes)
    return RouteTable(modules)
