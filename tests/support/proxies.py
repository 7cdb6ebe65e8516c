"""TCP proxies. `Proxy` cuts and freezes connections; `FrameProxy` parses Kafka frames and delays single requests.

with FrameProxy(target) as proxy:
    held = proxy.hold(ApiKey.END_TXN)   # the next EndTxn stays here, and its sender loses the connection
    ...                                 # the sender repeats it over another connection
    held.deliver()                      # now the first one arrives, over the first connection
"""

from __future__ import annotations

import contextlib
import queue
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Self

from barnabas.protocol.api import ApiKey
from barnabas.testing import EmbeddedBroker

DEADLINE = 60.0
_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">ihhi")  # length, api key, version, correlation id


class Held:
    """A delayed request. Its response goes to the test: the sender has closed the connection."""

    def __init__(self) -> None:
        self._taken = threading.Event()
        self._link: _Link | None = None
        self._frame = b""

    def take(self, link: _Link, frame: bytes) -> None:
        self._link, self._frame = link, frame
        self._taken.set()

    @property
    def is_taken(self) -> bool:
        return self._taken.is_set()

    @property
    def version(self) -> int:
        assert self.is_taken
        return int(_HEADER.unpack_from(self._frame)[2])

    def deliver(self) -> bytes:
        """The answer, without its length: the broker has handled the request."""
        assert self._taken.wait(DEADLINE), "no such request came by"
        assert self._link is not None
        return self._link.deliver(self._frame)


class FrameProxy:
    """Forwards every connection to `target`. `forward_to` is for a target whose port is not known at first."""

    def __init__(self, target: tuple[str, int] | None = None) -> None:
        self._target = target
        self._holding: dict[ApiKey, list[Held]] = {}
        self._acts: dict[ApiKey, tuple[int, Callable[[], object], bytes]] = {}
        self._links: list[_Link] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def forward_to(self, host: str, port: int) -> None:
        self._target = (host, port)

    def hold(self, api_key: ApiKey) -> Held:
        """Hold the next request of this API."""
        held = Held()
        with self._lock:
            self._holding.setdefault(api_key, []).append(held)
        return held

    def before(
        self, api_key: ApiKey, number: int, act: Callable[[], object], containing: bytes = b""
    ) -> None:
        """Do something before the next such request (1), or a later one, is passed on."""
        with self._lock:
            self._acts[api_key] = (number, act, containing)

    def claim(self, frame: bytes) -> Held | None:
        """Whether to hold a request. Otherwise it is passed on once this returns."""
        key = ApiKey(_HEADER.unpack_from(frame)[1])
        with self._lock:
            if waiting := self._holding.get(key):
                return waiting.pop(0)
            number, act, containing = self._acts.get(key, (0, None, b""))
            if act is None or containing not in frame:
                return None
            self._acts[key] = (number - 1, act, containing)
        if number == 1:
            act()
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for link in self._links:
            link.end()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    assert self._target is not None, "forward_to has not been called"
                    far = socket.create_connection(self._target)
                except OSError:
                    near.close()
                    continue
                self._links.append(_Link(self, near, far))


class _Link:
    """One connection: a thread for its requests, and one for its answers."""

    def __init__(self, proxy: FrameProxy, near: socket.socket, far: socket.socket) -> None:
        self._proxy = proxy
        self._near = near
        self._far = far
        self._is_lost = False
        self._answers: queue.Queue[bytes] = queue.Queue()
        for pump in (self._pump_requests, self._pump_answers):
            threading.Thread(target=pump, daemon=True).start()

    def _pump_requests(self) -> None:
        with contextlib.suppress(OSError):
            while frame := _read_frame(self._near):
                held = self._proxy.claim(frame)
                if held is not None:
                    self._lose()
                    held.take(self, frame)
                    return
                self._far.sendall(frame)
        if not self._is_lost:
            self.end()

    def _pump_answers(self) -> None:
        with contextlib.suppress(OSError):
            while frame := _read_frame(self._far):
                if self._is_lost:
                    self._answers.put(frame[_LENGTH.size :])
                else:
                    with contextlib.suppress(OSError):
                        self._near.sendall(frame)
        self.end()

    def _lose(self) -> None:
        """The sender's side is closed; the receiver does not know."""
        self._is_lost = True
        _shut(self._near)

    def deliver(self, frame: bytes) -> bytes:
        self._far.sendall(frame)
        wanted = frame[_LENGTH.size + 4 : _HEADER.size]  # the correlation id
        while not (answer := self._answers.get(timeout=DEADLINE)).startswith(wanted):
            pass
        return answer

    def end(self) -> None:
        _shut(self._near, self._far)


def _read_frame(source: socket.socket) -> bytes:
    """With its length; nothing at the end of the connection."""
    head = _read(source, _LENGTH.size)
    return head + _read(source, _LENGTH.unpack(head)[0]) if head else b""


def _read(source: socket.socket, size: int) -> bytes:
    read = bytearray()
    while len(read) < size:
        part = source.recv(size - len(read))
        if not part:
            return b""
        read += part
    return bytes(read)


class Proxy:
    """Forwards every connection to one address. `cut` ends connections and refuses new ones; `freeze` keeps them open
    but passes nothing on, as a network does that drops packets; `heal` ends both."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._passing = threading.Event()
        self._passing.set()
        self._refusing = False
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        self._refusing = True
        for pair in list(self._pairs):
            _shut(*pair)

    def freeze(self) -> None:
        self._passing.clear()

    def heal(self) -> None:
        self._refusing = False
        self._passing.set()

    def close(self) -> None:
        self._closed = True
        self.heal()
        self._listener.close()
        for pair in list(self._pairs):
            _shut(*pair)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                near.close()
                continue
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                continue
            threading.Thread(target=self._forward, args=(near, far), daemon=True).start()

    def _forward(self, near: socket.socket, far: socket.socket) -> None:
        pair = (near, far)
        self._pairs.add(pair)
        with contextlib.suppress(OSError, ValueError):
            while self._pass_on(near, far):
                pass
        self._pairs.discard(pair)
        _shut(near, far)

    def _pass_on(self, near: socket.socket, far: socket.socket) -> bool:
        other = {near: far, far: near}
        for ready in select.select((near, far), (), ())[0]:
            data = ready.recv(65536)
            self._passing.wait()
            if not data:
                return False
            other[ready].sendall(data)
        return True


@contextlib.contextmanager
def proxied_broker(settings: Mapping[str, str] | None = None) -> Iterator[tuple[EmbeddedBroker, FrameProxy]]:
    """A broker that clients reach through the proxy, once they have asked it for its address."""
    with FrameProxy() as proxy:
        address = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
        with EmbeddedBroker({**(settings or {}), **address}) as broker:
            proxy.forward_to(broker.host, broker.port)
            yield broker, proxy


def _shut(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
