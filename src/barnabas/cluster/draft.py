"""A mutable copy of an image, while deltas are applied to it."""

from __future__ import annotations

from collections.abc import Mapping, MutableSet
from typing import Any

import msgspec

from barnabas.cluster.image import BrokerState, MetadataImage, RemoteDeletion, Resource, ScramUser, TopicState
from barnabas.cluster.mirrors import MirrorTopic
from barnabas.common.types import Uuid
from barnabas.security.authn import DelegationToken, ScramCredential
from barnabas.security.authz.acls import AclBinding
from barnabas.security.quotas.filters import QuotaEntity


class Draft:
    """A changed image, copy on write: a mapping is copied on its first change."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._changes: dict[str, Any] = {}

    def finish(self, offset: int) -> MetadataImage:
        if "acls" in self._changes:
            self._changes["acls"] = frozenset(self._changes["acls"])
        return msgspec.structs.replace(self._image, offset=offset, **self._changes)

    def set(self, field: str, value: object) -> None:
        self._changes[field] = value

    def _own(self, field: str) -> Any:
        if field not in self._changes:
            self._changes[field] = dict(getattr(self._image, field))
        return self._changes[field]

    def name_of(self, topic_id: Uuid) -> str:
        """Return a topic name without copying the mapping: partitions change often, names rarely."""
        names: Mapping[Uuid, str] = self._changes.get("topic_names_by_id", self._image.topic_names_by_id)
        return names[topic_id]

    @property
    def brokers(self) -> dict[int, BrokerState]:
        return self._own("brokers")  # type: ignore[no-any-return]

    @property
    def topics(self) -> dict[str, TopicState]:
        return self._own("topics")  # type: ignore[no-any-return]

    @property
    def names(self) -> dict[Uuid, str]:
        return self._own("topic_names_by_id")  # type: ignore[no-any-return]

    @property
    def configs(self) -> dict[Resource, Mapping[str, str]]:
        return self._own("configs")  # type: ignore[no-any-return]

    @property
    def features(self) -> dict[str, int]:
        return self._own("features")  # type: ignore[no-any-return]

    @property
    def acls(self) -> MutableSet[AclBinding]:
        if "acls" not in self._changes:
            self._changes["acls"] = set(self._image.acls)
        return self._changes["acls"]  # type: ignore[no-any-return]

    @property
    def scram_credentials(self) -> dict[ScramUser, ScramCredential]:
        return self._own("scram_credentials")  # type: ignore[no-any-return]

    @property
    def delegation_tokens(self) -> dict[str, DelegationToken]:
        return self._own("delegation_tokens")  # type: ignore[no-any-return]

    @property
    def client_quotas(self) -> dict[QuotaEntity, Mapping[str, float]]:
        return self._own("client_quotas")  # type: ignore[no-any-return]

    @property
    def remote_deletions(self) -> dict[Uuid, RemoteDeletion]:
        return self._own("remote_deletions")  # type: ignore[no-any-return]

    @property
    def mirrors(self) -> dict[Uuid, MirrorTopic]:
        return self._own("mirrors")  # type: ignore[no-any-return]

    def forget_mirror(self, topic_id: Uuid) -> None:
        if topic_id in self._changes.get("mirrors", self._image.mirrors):
            del self.mirrors[topic_id]
