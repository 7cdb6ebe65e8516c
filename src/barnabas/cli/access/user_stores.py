"""Stores of SCRAM users: a running broker, or the metadata of stopped brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.cli.options import with_client
from barnabas.client.access import User
from barnabas.client.access import users as online

if TYPE_CHECKING:
    from barnabas.config.broker import BrokerConfig
    from barnabas.security.authn import ScramMechanism


class UserStore(Protocol):
    def check_keeps_secrets(self) -> None:
        """Raise KafkaError if the credentials would be stored where others can read them."""
        ...

    def users(self, names: Iterable[str] = ()) -> list[User]: ...

    def set_password(
        self, name: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
    ) -> None: ...

    def delete(self, name: str) -> None: ...


class OnlineUsers:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def check_keeps_secrets(self) -> None:
        """Skip the check: the broker makes it."""

    def users(self, names: Iterable[str] = ()) -> list[User]:
        return with_client(self._bootstrap, lambda client: online.describe_users(client, names))

    def set_password(
        self, name: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
    ) -> None:
        with_client(
            self._bootstrap,
            lambda client: online.set_password(client, name, password, mechanisms, iterations),
        )

    def delete(self, name: str) -> None:
        with_client(self._bootstrap, lambda client: online.delete_user(client, name))


class OfflineUsers:
    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    def check_keeps_secrets(self) -> None:
        from barnabas.cluster.zookeeper import check_hides_secrets

        check_hides_secrets(self._config)

    def users(self, names: Iterable[str] = ()) -> list[User]:
        from barnabas.broker.security import users

        found: dict[str, dict[ScramMechanism, int]] = {}
        for name, mechanism, iterations in users(self._config):
            found.setdefault(name, {})[mechanism] = iterations
        wanted = set(names)
        return sorted(User(name, infos) for name, infos in found.items() if not wanted or name in wanted)

    def set_password(
        self, name: str, password: str, mechanisms: Sequence[ScramMechanism], iterations: int
    ) -> None:
        from barnabas.broker.security import set_password

        set_password(self._config, name, password, mechanisms, iterations)

    def delete(self, name: str) -> None:
        from barnabas.broker.security import delete_user

        delete_user(self._config, name)
