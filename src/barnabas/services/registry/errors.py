"""API errors with Confluent's error codes: clients evaluate the code, users read the message.

Confluent documents only the codes. Messages follow Karapace where it differs from Confluent.
"""

from __future__ import annotations


class RegistryApiError(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def subject_not_found(subject: str) -> RegistryApiError:
    return RegistryApiError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> RegistryApiError:
    return RegistryApiError(404, 40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | str | None = None) -> RegistryApiError:
    text = "Schema not found" if schema_id is None else f"Schema {schema_id} not found"
    return RegistryApiError(404, 40403, text)


def subject_soft_deleted(subject: str) -> RegistryApiError:
    return RegistryApiError(
        404, 40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> RegistryApiError:
    return RegistryApiError(
        404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_soft_deleted(subject: str, version: int) -> RegistryApiError:
    return RegistryApiError(
        404,
        40406,
        f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryApiError:
    return RegistryApiError(
        404,
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted",
    )


def no_config(subject: str) -> RegistryApiError:
    return RegistryApiError(
        404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def no_mode(subject: str) -> RegistryApiError:
    return RegistryApiError(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(level: str, problems: list[str]) -> RegistryApiError:
    text = f"Incompatible schema, compatibility_mode={level}. Incompatibilities: {', '.join(problems)}"
    return RegistryApiError(409, 409, text)


def invalid_schema(reason: str) -> RegistryApiError:
    return RegistryApiError(422, 42201, f"Invalid schema: {reason}")


def unreadable_schema(kind: str, reason: str) -> RegistryApiError:
    """Error with Karapace's prefix; `reason` contains the position."""
    return RegistryApiError(422, 42201, f"Invalid {kind} schema. Error: {reason}")


def empty_schema() -> RegistryApiError:
    return RegistryApiError(422, 42201, "Empty schema")


def invalid_version(version: str) -> RegistryApiError:
    return RegistryApiError(
        422,
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and "
        'the string "latest"',
    )


def invalid_level() -> RegistryApiError:
    return RegistryApiError(
        422,
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive",
    )


def invalid_mode() -> RegistryApiError:
    return RegistryApiError(
        422, 42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT"
    )


def not_permitted(reason: str) -> RegistryApiError:
    return RegistryApiError(422, 42205, reason)


def reference_exists(subject: str, version: int) -> RegistryApiError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return RegistryApiError(422, 42206, f"One or more references exist to the schema {key}.")


def id_does_not_match(found: int, specified_id: int) -> RegistryApiError:
    return RegistryApiError(422, 42207, f"Schema id {found} does not match the given id {specified_id}")


def invalid_subject(subject: str) -> RegistryApiError:
    return RegistryApiError(422, 42208, f"The specified subject '{subject}' is not a valid.")


def invalid_context(context: str) -> RegistryApiError:
    return RegistryApiError(
        422, 422, f"not a valid context: {context!r} (it must not contain ':' or control characters)"
    )


def invalid_rules(reason: str) -> RegistryApiError:
    return RegistryApiError(422, 42210, f"Invalid ruleset: {reason}")


def bad_request(reason: str) -> RegistryApiError:
    return RegistryApiError(400, 400, reason)


def unprocessable(reason: str) -> RegistryApiError:
    return RegistryApiError(422, 422, reason)


def unauthorized() -> RegistryApiError:
    return RegistryApiError(401, 401, "Unauthorized")


def forbidden(operation: str, resource: str) -> RegistryApiError:
    return RegistryApiError(403, 40301, f"User is denied operation {operation} on {resource}")


def foreign_page(reason: str) -> RegistryApiError:
    return RegistryApiError(403, 403, reason)


def http_error(status: int) -> RegistryApiError:
    """Error of Confluent's HTTP server, raised before routing to a resource."""
    names = {
        404: "Not Found",
        405: "Method Not Allowed",
        406: "Not Acceptable",
        413: "Request Entity Too Large",
        415: "Unsupported Media Type",
    }
    return RegistryApiError(status, status, f"HTTP {status} {names[status]}")


def store_error(reason: str) -> RegistryApiError:
    return RegistryApiError(500, 50001, f"Error in the backend data store: {reason}")


def timed_out(reason: str) -> RegistryApiError:
    return RegistryApiError(500, 50002, f"Operation timed out: {reason}")


def forwarding_failed(leader: str, reason: str) -> RegistryApiError:
    return RegistryApiError(
        500, 50003, f"Error while forwarding the request to the primary {leader}: {reason}"
    )


def too_complex() -> RegistryApiError:
    return RegistryApiError(
        422,
        42201,
        "Invalid schema: too complex to compare with another version (--limit max-steps and max-seconds)",
    )


def busy(reason: str) -> RegistryApiError:
    return RegistryApiError(503, 503, reason)


def untrusted_leader(leader: str, reason: str) -> RegistryApiError:
    return RegistryApiError(503, 503, f"Cannot forward the request to the primary, {leader}: {reason}")


def unknown_leader() -> RegistryApiError:
    return RegistryApiError(500, 50004, "The primary is unknown: an election is in progress; retry")
