"""What an agent cannot mend by itself."""

from __future__ import annotations


class IngestError(Exception):
    """Its text says what to do."""


class TwinError(IngestError):
    """Two agents of one name take the transactional id from each other."""

    def __init__(self, agent: str) -> None:
        super().__init__(
            f"another agent named {agent} is running: stop it, or give this one another name (--agent)"
        )


class NoProcError(IngestError):
    """This is no Linux."""

    def __init__(self, folder: str) -> None:
        super().__init__(f"there is no {folder}/stat: `ingest host` reads what Linux counts; run it on Linux")
