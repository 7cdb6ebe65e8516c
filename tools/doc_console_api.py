"""docs/console-api.md: every path of the console's JSON API, from the table of routes."""

from barnabas.services.console.api_documentation import ApiRoute, Parameter, described
from barnabas.services.console.pages import route_table
from tools.doc_marks import GENERATED

_HEAD = """# The console's JSON API

Every page of [the console](console.md) is JSON, too: put `/api/v1` before its path. The console shows the same at
`/api`. A program sends a token with each request (`Authorization: Bearer TOKEN`, [made](console.md#tokens) with
`barnabas console token`), or with a login as yourself the name and password, or token, that the brokers know. A
change is a POST with a JSON object. An error is `{"error": "a sentence", "field": "where"}` with the status 400 (bad
input), 401 (no login), 403 (no right), 404, 409 (changed meanwhile), 413 (too large), 429 (too many attempts to log
in), 502 (the cluster cannot be asked) or 503 (busy). Names in a path are quoted, `/` in them as `%2F`. Streams are
Server-Sent Events. Downloads are files.
"""


def console_api_page() -> str:
    return "\n".join([GENERATED, _HEAD, *map(_section, described(route_table()))])


def _section(route: ApiRoute) -> str:
    lines = [f"## `{route.method} {route.path}`\n", f"{route.summary}\n", f"Needs: {route.needs}.\n"]
    if route.parameters:
        lines += ["| parameter | in | type | unless given |", "|---|---|---|---|"]
        lines += [_row(each) for each in route.parameters]
        lines.append("")
    lines.append(f"Answers: `{route.answer}`\n")
    return "\n".join(lines)


def _row(parameter: Parameter) -> str:
    default = (
        f"`{parameter.default}`"
        if parameter.default
        else ("" if parameter.where == "path" else "must be given")
    )
    cells = (f"`{parameter.name}`", parameter.where, parameter.kind, default)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
