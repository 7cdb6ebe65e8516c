"""The regular expression library is loaded without blocking the event loop."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys, threading
from barnabas.protocol.messages.transactions import ListTransactionsRequest
from barnabas.testing import EmbeddedBroker
from tests.support.clients import RawConnection

imported_by = []

class Noting:
    def find_spec(self, name, path=None, target=None):
        if name == "re2._re2":
            imported_by.append(threading.get_ident())

with EmbeddedBroker() as broker, RawConnection(broker.port, timeout=60) as connection:
    (loop_thread,) = (thread.ident for thread in threading.enumerate() if thread.name == "barnabas broker")
    assert "re2" not in sys.modules
    sys.meta_path.insert(0, Noting())
    answer = connection.ask(ListTransactionsRequest(transactional_id_pattern="a.*"), 2)
    assert answer.error_code == 0, answer
    assert len(imported_by) == 1 and imported_by[0] != loop_thread, imported_by
"""


def test_the_first_pattern_is_not_loaded_by_the_loop() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
