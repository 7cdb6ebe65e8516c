"""docs/console-api.md: every path of the console's JSON API, from the table of routes."""

from barnabas.services.console.pages import route_table
from barnabas.services.console.pages.access.api import ApiRoute, Parameter, described
from tools.doc_marks import GENERATED

_HEAD = """# The console's JSON API

Every page of [the console](console.md) is available as JSON: put `/api/v1` before its path. The console shows this
page at `/api`. Send a token with each request (`Authorization: Bearer TOKEN`, [created](console.md#tokens) with
`barnabas console token`); with per-user logins, send the user name and password, or the token, that the brokers accept.
A change is a POST with a JSON object. An error is `{"error": "a sentence", "field": "where"}` with the status 400 (bad
input), 401 (no login), 403 (no permission), 404, 409 (concurrent change), 413 (too large), 429 (too many login
attempts), 502 (cluster unreachable) or 503 (busy). Names in a path are percent-encoded, including `/` as `%2F`. Streams
are Server-Sent Events. Downloads are files.
"""


def console_api_page() -> str:
    return "\n".join([GENERATED, _HEAD, *map(_section, described(route_table()))])


def _section(route: ApiRoute) -> str:
    lines = [f"## `{route.method} {route.path}`\n", f"{route.summary}\n", f"Needs: {route.needs}.\n"]
    if route.parameters:
        lines += ["| parameter | in | type | default |", "|---|---|---|---|"]
        lines += [_row(each) for each in route.parameters]
        lines.append("")
    lines.append(f"Returns: `{route.answer}`\n")
    return "\n".join(lines)


def _row(parameter: Parameter) -> str:
    default = (
        f"`{parameter.default}`" if parameter.default else ("" if parameter.where == "path" else "required")
    )
    cells = (f"`{parameter.name}`", parameter.where, parameter.kind, default)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
