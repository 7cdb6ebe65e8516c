"""Requests from their bytes to their handler and back. Dispatcher decodes a request, calls the function of
its Route and encodes the response; `stages` composes authorization and quotas around a Handler;
`heavy_requests` and `request_parts` serve large requests in slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.network.requests.authorize_stage import ApiPermissions, Each, Names, RequiredPermission
    from barnabas.network.requests.brokers_only import log_refused
    from barnabas.network.requests.error_injection import error_response
    from barnabas.network.requests.heavy_requests import budget_from
    from barnabas.network.requests.quota_stage import MutationQuota, QuotaBytes, mute
    from barnabas.network.requests.request import Request
    from barnabas.network.requests.routes import ELEMENTS_AT_ONCE, HandlerFunction, Result, Route
    from barnabas.network.requests.stages import RequestSecurity
    from barnabas.network.requests.time_slices import RequestTurn, at_once_or_in_turns
else:
    __getattr__ = lazy_exports(
        __name__,
        {
            "authorize_stage": "ApiPermissions Each Names RequiredPermission",
            "brokers_only": "log_refused",
            "error_injection": "error_response",
            "heavy_requests": "budget_from",
            "quota_stage": "MutationQuota QuotaBytes mute",
            "request": "Request",
            "routes": "ELEMENTS_AT_ONCE HandlerFunction Result Route",
            "stages": "RequestSecurity",
            "time_slices": "RequestTurn at_once_or_in_turns",
        },
    )

__all__ = [
    "ELEMENTS_AT_ONCE",
    "ApiPermissions",
    "Each",
    "HandlerFunction",
    "MutationQuota",
    "Names",
    "QuotaBytes",
    "Request",
    "RequestSecurity",
    "RequestTurn",
    "RequiredPermission",
    "Result",
    "Route",
    "at_once_or_in_turns",
    "budget_from",
    "error_response",
    "log_refused",
    "mute",
]
