"""Login of a search process to a cluster."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

from barnabas.client import Client
from barnabas.client.schemas import RegistryAccount
from barnabas.client.security import PLAINTEXT, ClientSecurity
from barnabas.security.authn import Secret


@dataclass(frozen=True, slots=True)
class ScanLogin:
    bootstrap: str
    security: ClientSecurity = PLAINTEXT


async def login_of(client: Client) -> bytes:
    """Pickle the client's login for the pipe to a search process. Token callbacks cannot be pickled: call them now."""
    security = client.security
    if security.sasl is not None and callable(security.sasl.token):
        token = Secret(await security.sasl.token())
        security = replace(security, sasl=replace(security.sasl, token=token))
    return pickle.dumps(ScanLogin(client.bootstrap, security))


def registry_of(account: RegistryAccount, client: Client, *, by_user: bool) -> RegistryAccount:
    """The account at the registry for a client; `by_user` if it gets the password of the client's connection."""
    sasl = client.security.sasl
    if not by_user or sasl is None or not sasl.username or not account.url:
        return account
    return replace(account, user=sasl.username, password=sasl.password)


def unpack(data: bytes) -> ScanLogin:
    """Unpickle a login; only for data from the parent process."""
    found = pickle.loads(data)
    assert isinstance(found, ScanLogin)
    return found
