"""As whom a search process logs in to a cluster."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

from barnabas.client.security.settings import PLAINTEXT, Security
from barnabas.security.secret import Secret


@dataclass(frozen=True, slots=True)
class Login:
    bootstrap: str
    security: Security = PLAINTEXT

    async def packed(self) -> bytes:
        """For a pipe to a process of ours. A token that a coroutine gives is taken now: it cannot be sent."""
        sasl = self.security.sasl
        if sasl is None or not callable(sasl.token):
            return pickle.dumps(self)
        token = Secret(await sasl.token())
        return pickle.dumps(replace(self, security=replace(self.security, sasl=replace(sasl, token=token))))


def unpack(data: bytes) -> Login:
    """Only what the process that started this one has sent."""
    found = pickle.loads(data)
    assert isinstance(found, Login)
    return found
