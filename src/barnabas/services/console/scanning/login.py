"""As whom a search process logs in to a cluster."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

from barnabas.client import Client
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.security.authn import Secret


@dataclass(frozen=True, slots=True)
class ScanLogin:
    bootstrap: str
    security: ClientSecurity = PLAINTEXT


async def login_of(client: Client) -> bytes:
    """For a pipe to a process of ours. A token that a coroutine gives is taken now: it cannot be sent."""
    security = client.security
    if security.sasl is not None and callable(security.sasl.token):
        token = Secret(await security.sasl.token())
        security = replace(security, sasl=replace(security.sasl, token=token))
    return pickle.dumps(ScanLogin(client.bootstrap, security))


def unpack(data: bytes) -> ScanLogin:
    """Only what the process that started this one has sent."""
    found = pickle.loads(data)
    assert isinstance(found, ScanLogin)
    return found
