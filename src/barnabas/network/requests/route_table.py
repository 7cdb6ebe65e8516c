"""Routes of a dispatcher: one for each API and version, built on first use from the table of handlers."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.metrics.requests import RequestMetrics
from barnabas.network.requests.routes import Handler, Route
from barnabas.network.requests.stages import Security
from barnabas.security.quotas import Quotas


class RouteTable:
    """Routes are built with the current authorizer and quotas, and rebuilt when these change."""

    def __init__(self, handlers: Iterable[Handler], metrics: RequestMetrics, security: Security) -> None:
        self.handlers = {handler.request_class.api_key: handler for handler in handlers}
        self._metrics = metrics
        self._security = security
        self._routes: dict[int, Route] = {}  # by the first four bytes of a request: API key, version

    @property
    def security(self) -> Security:
        """The authorizer and the quotas of the routes."""
        return self._security

    def use(self, security: Security) -> None:
        """Change the authorizer and the quotas: routes are rebuilt."""
        self._security = security
        self._routes.clear()

    def use_quotas(self, quotas: Quotas) -> None:
        """Change the kinds of quotas that are enforced."""
        self.use(self._security._replace(quotas=quotas))

    def route_of(self, api_key: int, version: int) -> Route | None:
        """Return a route, built on first use; None if the API or version is not supported."""
        key, handler = api_key << 16 | version, self.handlers.get(api_key)
        route = self._routes.get(key)
        if route is None and handler is not None and handler.min_version <= version <= handler.max_version:
            route = self._routes[key] = Route(handler, version, self._metrics, self._security)
        return route
