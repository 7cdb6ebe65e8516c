"""Requests from their bytes to their handler and back. Dispatcher decodes a request, calls the function of
its Route and encodes the response; `stages` compiles authorization and quotas into it;
`heavy_requests` and `request_parts` serve large requests in slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.lazy import lazy_exports

if TYPE_CHECKING:
    from barnabas.network.requests.denials import error_response as error_response
    from barnabas.network.requests.dispatch import Dispatcher as Dispatcher
    from barnabas.network.requests.heavy_requests import budget_from as budget_from
    from barnabas.network.requests.heavy_requests import (
        run_or_continue_in_slices as run_or_continue_in_slices,
    )
    from barnabas.network.requests.quota_stage import mute as mute
    from barnabas.network.requests.request import InnerRequest as InnerRequest
    from barnabas.network.requests.request import Request as Request
    from barnabas.network.requests.request import RequestDispatcher as RequestDispatcher
    from barnabas.network.requests.request import access_of as access_of
    from barnabas.network.requests.routes import ELEMENTS_AT_ONCE as ELEMENTS_AT_ONCE
    from barnabas.network.requests.routes import Handler as Handler
    from barnabas.network.requests.routes import HandlerFunction as HandlerFunction
    from barnabas.network.requests.routes import Result as Result
    from barnabas.network.requests.routes import Route as Route
    from barnabas.network.requests.rules import ActionOf as ActionOf
    from barnabas.network.requests.rules import ApiPermissions as ApiPermissions
    from barnabas.network.requests.rules import Each as Each
    from barnabas.network.requests.rules import MutationCount as MutationCount
    from barnabas.network.requests.rules import Names as Names
    from barnabas.network.requests.rules import QuotaBytes as QuotaBytes
    from barnabas.network.requests.rules import RequestSecurity as RequestSecurity
    from barnabas.network.requests.rules import RequiredPermission as RequiredPermission
    from barnabas.network.requests.stages import log_refused as log_refused
    from barnabas.network.requests.time_slices import RequestTurn as RequestTurn
else:
    __getattr__ = lazy_exports(__name__)
