"""Request handlers, one module or package per family of messages: a handler takes the broker, the request and
its message, and returns the response. `table` has HANDLERS, which is also the ApiVersions response;
`authorization`, `quotas` and `slicing` add authorization, quotas and chunking to its rows.
"""
