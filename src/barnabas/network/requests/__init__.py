"""Requests from their bytes to their handler and back. Dispatcher decodes a request, calls the function of
its Route and encodes the response; `stages` composes authorization and quotas around a Handler;
`heavy_requests` and `request_parts` serve large requests in slices.
"""
