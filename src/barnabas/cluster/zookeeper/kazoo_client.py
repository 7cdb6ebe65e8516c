"""The only module that imports kazoo. It returns the types of types.py, never kazoo's.

kazoo's threads call functions of this module, which only post the call to the event loop (session.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from barnabas.cluster.zookeeper.settings import ZooKeeperSettings
from barnabas.cluster.zookeeper.types import (
    BadVersionError,
    CheckVersion,
    Create,
    DeleteNode,
    NodeExistsError,
    NoNodeError,
    Operation,
    OutcomeUnknownError,
    SessionLostError,
    SessionState,
    SetData,
    Stat,
    ZooKeeperError,
    ZooKeeperUnusableError,
)
from barnabas.common.installation import extra_command
from barnabas.common.safe_logging import safe_logger

try:
    from kazoo import exceptions, security
    from kazoo.client import KazooClient, KazooState
    from kazoo.handlers.threading import SequentialThreadingHandler
    from kazoo.protocol.states import KeeperState
except ImportError as error:
    raise ZooKeeperUnusableError(
        f"Brokers with zookeeper.connect need the package kazoo: {extra_command('cluster')}"
    ) from error

Client: TypeAlias = Any  # kazoo has no types
logger = safe_logger(__name__)

RECONNECT_SECONDS = (
    0.5  # max. delay between two attempts: kazoo's default of a minute would outlast every session
)
ATTEMPT_SECONDS = 5.0  # limit of one attempt
ATTEMPTS_PER_TIMEOUT = 3
"""kazoo's limit of one connection attempt is the whole session timeout: a server that accepts the connection without
responding, or drops packets, would cost the session although another attempt could have succeeded."""

_LINKS = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}


def start_client(
    settings: ZooKeeperSettings,
    changed: Callable[[Client, SessionState, int], None],
    negotiated: Callable[[float], None],
) -> Client:
    """Start connecting. `changed` is called with every state and its session id, `negotiated` with the session
    timeout in seconds; both on kazoo's threads, which they must not block."""
    client = _client(settings)

    def listen(state: str) -> None:
        if client.client_state == KeeperState.AUTH_FAILED:  # soon followed by CLOSED
            client.was_refused = True
        changed(client, _LINKS[state], client._session_id or 0)

    client.add_listener(listen)
    _learn_timeout(client, negotiated)
    _limit_answers(client, attempt_seconds(settings))
    client.start_async()
    return client


def _client(settings: ZooKeeperSettings) -> Client:
    tls, sasl = settings.tls, settings.sasl
    options: dict[str, Any] = {}
    if tls is not None:
        options = {
            "use_ssl": True,
            "ca": tls.authorities,
            "certfile": tls.certificate,
            "keyfile": tls.certificate,
            "keyfile_password": tls.key_password,
            "check_hostname": tls.check_hostname,
        }
    if sasl is not None:
        sasl_options = {"mechanism": sasl.mechanism, "username": sasl.username, "password": sasl.password}
        options["sasl_options"] = {name: value for name, value in sasl_options.items() if value is not None}
    return KazooClient(
        settings.hosts,
        timeout=settings.session_timeout,
        handler=_Handler(attempt_seconds(settings)),
        auth_data=[("digest", settings.digest)] if settings.digest else None,
        connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": RECONNECT_SECONDS},
        logger=_kazoo_logger,
        **options,
    )


def attempt_seconds(settings: ZooKeeperSettings) -> float:
    return min(ATTEMPT_SECONDS, settings.session_timeout / ATTEMPTS_PER_TIMEOUT)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler, with a time limit on opening a connection."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        return super().create_connection(*arguments, **{**options, "timeout": self._seconds})


def _limit_answers(client: Client, seconds: float) -> None:
    """Limit the requests that open a session (Connect, Auth); all others are covered by the ping timeout."""
    connection = client._connection
    invoke = connection._invoke
    connection._invoke = lambda timeout, request, xid=None: invoke(min(timeout, seconds), request, xid)


# session.py logs each change of the connection once; kazoo would log every attempt.
_kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
_kazoo_logger.setLevel(logging.ERROR)


def _learn_timeout(client: Client, negotiated: Callable[[float], None]) -> None:
    """Report the negotiated timeout: kazoo has no API for it, but `_connect` returns two thirds of it, in ms."""
    connection = client._connection
    connect = connection._connect

    def connect_and_report(*arguments: Any) -> Any:
        result = connect(*arguments)
        negotiated(result[0] * 1.5 / 1000)
        return result

    connection._connect = connect_and_report


def is_over(client: Client) -> bool:
    """True if the client will not connect again: kazoo or this module has ended it."""
    thread = client._connection._connection_routine
    return thread is None or not thread.is_alive()


def end(client: Client) -> None:
    try:
        client.stop()
        client.close()
    except Exception:
        logger.exception("error while closing a ZooKeeper session")


def settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if result.exception is None:
        future.set_result(result.value)
    else:
        future.set_exception(_converted(result.exception))


def was_refused(client: Client) -> bool:
    return client.client_state == KeeperState.AUTH_FAILED or hasattr(client, "was_refused")


def refusal() -> ZooKeeperUnusableError:
    return ZooKeeperUnusableError(
        "it refused our credentials; check barnabas.zookeeper.sasl.username and barnabas.zookeeper.sasl.password"
    )


def acl(settings: ZooKeeperSettings, public: bool) -> list[Any]:
    if not settings.set_acl:
        return list(security.OPEN_ACL_UNSAFE)
    return list(security.CREATOR_ALL_ACL) + (list(security.READ_ACL_UNSAFE) if public else [])


def transaction(client: Client, settings: ZooKeeperSettings, operations: list[Operation]) -> Any:
    built = client.transaction()
    for operation in operations:
        path = settings.root + operation.path
        match operation:
            case Create(_, data, ephemeral, public):
                built.create(path, data, acl=acl(settings, public), ephemeral=ephemeral)
            case SetData(_, data, version):
                built.set_data(path, data, version)
            case DeleteNode(_, version):
                built.delete(path, version)
            case CheckVersion(_, version):
                built.check(path, version)
    return built


def first_error(results: list[Any]) -> ZooKeeperError | None:
    """Error of the operation that made a multi fail; the others only report that they were rolled back."""
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, _CONSEQUENCES):
            return _converted(result)
    return None


def stat_of(stat: Any) -> Stat:
    return Stat(stat.version, stat.czxid, stat.ephemeralOwner)


_CONSEQUENCES = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)
_UNKNOWN = (
    exceptions.ConnectionLoss,
    exceptions.OperationTimeoutError,
    exceptions.RequestTimeoutError,
    exceptions.SessionMovedError,
    exceptions.ThrottledOpError,
)
_KINDS: tuple[tuple[Any, type[ZooKeeperError]], ...] = (
    (exceptions.NoNodeError, NoNodeError),
    (exceptions.NodeExistsError, NodeExistsError),
    (exceptions.BadVersionError, BadVersionError),
    (exceptions.SessionExpiredError, SessionLostError),
    (_UNKNOWN, OutcomeUnknownError),
)


def _converted(error: Exception) -> ZooKeeperError:
    for kazoo_error, kind in _KINDS:
        if isinstance(error, kazoo_error):
            return kind(str(error) or type(error).__name__)
    if isinstance(error, exceptions.AuthFailedError):
        return refusal()
    if isinstance(error, exceptions.NoAuthError | exceptions.InvalidACLError):
        return ZooKeeperUnusableError(
            "ZooKeeper denies access to a node of the cluster: all brokers need the same credentials as the broker "
            "that created it (barnabas.zookeeper.digest, barnabas.zookeeper.sasl.*)"
        )
    return ZooKeeperError(f"{type(error).__name__}: {error}")
