"""Every template compiles, with its includes."""

from __future__ import annotations

import jinja2
import jinja2.meta
import pytest

from barnabas.services.console.pages import route_table
from barnabas.services.console.rendering import FOLDER, Renderer
from barnabas.services.console.static_files import StaticFiles

NAMES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.html"))


@pytest.mark.parametrize("name", NAMES)
def test_template_includes_only_existing_parts(name: str) -> None:
    environment: jinja2.Environment = Renderer(StaticFiles())._jinja
    environment.get_template(name)
    parsed = environment.parse((FOLDER / name).read_text())
    assert {found for found in jinja2.meta.find_referenced_templates(parsed) if found} <= set(NAMES)


def test_every_page_has_its_template() -> None:
    assert {route.template for route in route_table().routes if route.template} <= set(NAMES)
