"""Routes of one topic, except those of its records."""

from __future__ import annotations

from barnabas.services.console.pages.topic import bulk as many
from barnabas.services.console.pages.topic import changing, config, readers, summary

routes = [route for module in (summary, config, readers, changing, many) for route in module.routes]
