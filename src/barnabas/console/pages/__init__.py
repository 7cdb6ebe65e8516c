"""All routes of the console. Each module here has those of one subject."""

from __future__ import annotations

from barnabas.console.routes import RouteTable


def route_table() -> RouteTable:
    """Imports the pages when a console is made, not when somebody asks for a name of this package."""
    from barnabas.console.pages import flows, logs, places

    modules = (places.routes, logs.routes, flows.routes)
    return RouteTable(modules)
