"""The routes of a dispatcher: one for each API and version, made at its first use from the table of handlers."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.metrics.requests import RequestMetrics
from barnabas.network.requests.routes import Handler, Route
from barnabas.network.requests.stages import Security
from barnabas.security.quotas import Quotas


class RouteTable:
    """Routes are compiled with the authorizer and the quotas of their time; others make them again."""

    def __init__(self, handlers: Iterable[Handler], metrics: RequestMetrics, security: Security) -> None:
        self.handlers = {handler.request_class.api_key: handler for handler in handlers}
        self._metrics = metrics
        self._security = security
        self._routes: dict[int, Route] = {}  # by the first four bytes of a request: API key, version

    @property
    def security(self) -> Security:
        """The authorizer and the quotas that routes are made with."""
        return self._security

    def use(self, security: Security) -> None:
        """Authorize and charge from now on: routes are made again."""
        self._security = security
        self._routes.clear()

    def use_quotas(self, quotas: Quotas) -> None:
        """Charge for other kinds of quotas from now on, or for none."""
        self.use(self._security._replace(quotas=quotas))

    def route_of(self, api_key: int, version: int) -> Route | None:
        """Make a route at its first use; None if there is no such API or version."""
        key, handler = api_key << 16 | version, self.handlers.get(api_key)
        route = self._routes.get(key)
        if route is None and handler is not None and handler.min_version <= version <= handler.max_version:
            route = self._routes[key] = Route(handler, version, self._metrics, self._security)
        return route
