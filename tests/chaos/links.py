"""Links between processes that can be cut: every connection goes through a proxy that knows its source."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Collection
from enum import Enum

from barnabas.protocol.framing import PEER_CLIENT_ID

UNKNOWN = -1
_HEADER = struct.Struct(">ihhih")  # length, api key, version, correlation id, length of the client id


class Way(Enum):
    """Direction of traffic. The source is the connecting side."""

    FROM_SOURCE = "requests"
    TO_SOURCE = "answers"


class Links:
    """A proxy in front of one address. Connections of a source (a broker's id) can be cut, frozen or made slow.

    Brokers name themselves in their first request, so that links are cut pair by pair. In front of ZooKeeper each
    broker has a proxy of its own, whose connections all have that source.
    """

    def __init__(self, target: tuple[str, int], *, source: int | None = None) -> None:
        self._target = target
        self._source = source
        self._cut: set[int] = set()
        self._frozen: set[tuple[int, Way]] = set()
        self._delays: dict[int, float] = {}
        self._open: set[_Link] = set()
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def cut(self, source: int) -> None:
        """End its connections and refuse new ones."""
        with self._changed:
            self._cut.add(source)
            for link in [link for link in self._open if link.source == source]:
                link.end()

    def freeze(self, source: int, ways: Collection[Way] = tuple(Way)) -> None:
        """Keep its connections and accept new ones, but pass nothing on, as a network that drops packets."""
        with self._changed:
            self._frozen.update((source, way) for way in ways)

    def delay(self, source: int, seconds: float) -> None:
        """Delay all traffic in both directions, in order."""
        with self._changed:
            self._delays[source] = seconds

    def heal(self) -> None:
        with self._changed:
            self._cut.clear()
            self._frozen.clear()
            self._delays.clear()
            self._changed.notify_all()

    def close(self) -> None:
        self.heal()
        self._listener.close()
        for link in list(self._open):
            link.end()

    def may_pass(self, source: int, way: Way) -> bool:
        """Wait while this way is frozen, and for as long as it takes; whether the source is not cut then."""
        with self._changed:
            self._changed.wait_for(lambda: not self._delays.get(source), self._delays.get(source, 0.0))
            self._changed.wait_for(lambda: (source, way) not in self._frozen)
            return source not in self._cut

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with contextlib.suppress(OSError):
            first = b"" if self._source is not None else near.recv(65536)
            link = _Link(self, near, self._source if self._source is not None else source_of(first))
            self._open.add(link)
            try:
                link.run(self._target, first)
            finally:
                self._open.discard(link)
        near.close()


class _Link:
    def __init__(self, links: Links, near: socket.socket, source: int) -> None:
        self.source = source
        self._links = links
        self._near = near
        self._far: socket.socket | None = None

    def run(self, target: tuple[str, int], first: bytes) -> None:
        if not self._links.may_pass(self.source, Way.FROM_SOURCE):
            return
        with socket.create_connection(target) as far:
            self._far = far
            if first:
                far.sendall(first)
            back = threading.Thread(target=self._pump, args=(far, self._near, Way.TO_SOURCE), daemon=True)
            back.start()
            self._pump(self._near, far, Way.FROM_SOURCE)
            back.join()

    def _pump(self, from_: socket.socket, to: socket.socket, way: Way) -> None:
        with contextlib.suppress(OSError):
            while data := from_.recv(65536):
                if not self._links.may_pass(self.source, way):
                    break
                to.sendall(data)
        self.end()

    def end(self) -> None:
        for side in (self._near, self._far):
            if side is not None:
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)


def source_of(frame: bytes) -> int:
    """The broker that a first request is from, by its client id."""
    if len(frame) < _HEADER.size:
        return UNKNOWN
    length = _HEADER.unpack_from(frame)[4]
    client_id = frame[_HEADER.size : _HEADER.size + max(length, 0)].decode(errors="replace")
    number = client_id.removeprefix(PEER_CLIENT_ID)
    return int(number) if client_id.startswith(PEER_CLIENT_ID) and number.isdigit() else UNKNOWN
