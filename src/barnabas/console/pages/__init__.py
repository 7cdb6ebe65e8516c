"""All routes of the console. Each module here has those of one subject."""

from __future__ import annotations

from barnabas.console.routes import RouteTable


def route_table() -> RouteTable:
    """Imports the pages when a console is made, not when somebody asks for a name of this package."""
    from barnabas.console.pages import curves, group_offsets, groups, overview, places, topics
    from barnabas.console.pages.records import chart, exporting, listing, one, producing, tail

    records = (listing, one, tail, exporting, chart, producing)
    figures = (overview, topics, groups, group_offsets, curves)
    modules = (places.routes, *(each.routes for each in records), *(each.routes for each in figures))
    return RouteTable(modules)
