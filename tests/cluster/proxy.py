"""A TCP proxy whose links can be cut, for tests of what happens then."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from types import TracebackType
from typing import Self


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


def _shut(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
