"""Public path of durations such as `10s`, for pipeline folders; defined in `barnabas.common.durations`."""

from barnabas.common.durations import seconds_of

__all__ = ["seconds_of"]
