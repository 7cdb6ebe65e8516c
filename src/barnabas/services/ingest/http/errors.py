"""Error responses. The body has the registry's format: `error_code` and `message`."""

from __future__ import annotations


class PublishError(Exception):
    def __init__(
        self, status: int, message: str, *, line: int | None = None, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.line = line
        self.headers = headers

    @property
    def document(self) -> dict[str, object]:
        found: dict[str, object] = {"error_code": self.status, "message": self.message}
        return found if self.line is None else {**found, "line": self.line}


def bad_json(line: int, reason: str) -> PublishError:
    return PublishError(
        400, f"line {line} is not valid JSON: {reason}; nothing of this body was written", line=line
    )


def incomplete_body() -> PublishError:
    return PublishError(400, "the body is incomplete; nothing of it was written")


def too_large(what: str, limit: int, setting: str) -> PublishError:
    return PublishError(413, f"{what}: at most {limit} are allowed ({setting}); split the request")


def full() -> PublishError:
    text = "too many requests wait for the broker; retry later"
    return PublishError(429, text, headers=(("retry-after", "1"),))


def unavailable(reason: str) -> PublishError:
    return PublishError(503, reason, headers=(("retry-after", "1"),))
