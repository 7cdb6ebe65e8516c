"""A broker has what each handler needs: `make check` runs mypy over this module, and nothing else uses it.

The table of handlers calls all of them with the broker, whatever their protocols say. A protocol that is not listed
here fails `tests/tools/test_handler_needs.py`.
"""

from __future__ import annotations

from barnabas.broker.broker import Broker
from barnabas.handlers.cluster import ClusterNeeds
from barnabas.handlers.configuration.alter_configs import ConfigsNeeds, TlsNeeds
from barnabas.handlers.configuration.describe_configs import DescribeConfigsNeeds
from barnabas.handlers.envelope import EnvelopeNeeds
from barnabas.handlers.find_coordinator import FindCoordinatorNeeds
from barnabas.handlers.forwarding import ForwardingNeeds
from barnabas.handlers.groups.admin import GroupAdminNeeds
from barnabas.handlers.groups.consumer import ConsumerGroupNeeds
from barnabas.handlers.groups.describe import DescribeNeeds
from barnabas.handlers.groups.offsets import OffsetNeeds
from barnabas.handlers.groups.share import ShareGroupNeeds
from barnabas.handlers.groups.streams import StreamsGroupNeeds
from barnabas.handlers.log_dirs import LogDirsNeeds
from barnabas.handlers.metadata import MetadataNeeds
from barnabas.handlers.mirror.appends import MirrorNeeds
from barnabas.handlers.mirror.topics import AlterMirrorsNeeds, DescribeMirrorsNeeds
from barnabas.handlers.needs import FetchNeeds, HasGroups, LedPartitionNeeds
from barnabas.handlers.offsets import OffsetsNeeds
from barnabas.handlers.produce.admission import AdmissionNeeds
from barnabas.handlers.produce.appending import ProduceNeeds
from barnabas.handlers.replication import ReplicationNeeds
from barnabas.handlers.security.acls import AclsNeeds
from barnabas.handlers.security.client_quotas import ClientQuotasNeeds
from barnabas.handlers.security.sasl import SaslNeeds
from barnabas.handlers.security.scram_credentials import ScramNeeds
from barnabas.handlers.security.tokens import TokensNeeds
from barnabas.handlers.share.fetch import ShareFetchNeeds
from barnabas.handlers.share.offsets import ShareOffsetNeeds
from barnabas.handlers.share.requests import ShareNeeds
from barnabas.handlers.share.state import ShareStateNeeds
from barnabas.handlers.telemetry.handler import TelemetryNeeds
from barnabas.handlers.topic_partitions import TopicPartitionsNeeds
from barnabas.handlers.topics import TopicsNeeds
from barnabas.handlers.transactions.admin import ListingNeeds
from barnabas.handlers.transactions.markers import MarkerNeeds
from barnabas.handlers.transactions.offsets import OffsetCommitNeeds
from barnabas.handlers.transactions.producers import TransactionNeeds
from barnabas.handlers.versions import VersionsNeeds


def check(broker: Broker) -> None:
    """Each line is a mypy error if the broker does not satisfy the protocol."""
    _1: AdmissionNeeds = broker
    _2: ClusterNeeds = broker
    _3: ConfigsNeeds = broker
    _4: ConsumerGroupNeeds = broker
    _5: DescribeNeeds = broker
    _6: EnvelopeNeeds = broker
    _7: FetchNeeds = broker
    _8: FindCoordinatorNeeds = broker
    _9: ForwardingNeeds = broker
    _10: GroupAdminNeeds = broker
    _11: HasGroups = broker
    _12: LedPartitionNeeds = broker
    _13: ListingNeeds = broker
    _14: LogDirsNeeds = broker
    _15: MarkerNeeds = broker
    _16: MetadataNeeds = broker
    _17: OffsetCommitNeeds = broker
    _18: OffsetNeeds = broker
    _19: OffsetsNeeds = broker
    _20: ProduceNeeds = broker
    _21: ReplicationNeeds = broker
    _22: ShareFetchNeeds = broker
    _23: ShareGroupNeeds = broker
    _24: ShareNeeds = broker
    _25: ShareOffsetNeeds = broker
    _26: ShareStateNeeds = broker
    _27: StreamsGroupNeeds = broker
    _28: TelemetryNeeds = broker
    _29: TopicPartitionsNeeds = broker
    _30: TopicsNeeds = broker
    _31: TransactionNeeds = broker
    _32: VersionsNeeds = broker
    _33: SaslNeeds = broker
    _34: AclsNeeds = broker
    _35: ClientQuotasNeeds = broker
    _36: ScramNeeds = broker
    _37: TokensNeeds = broker
    _38: TlsNeeds = broker
    _39: DescribeConfigsNeeds = broker
    _40: MirrorNeeds = broker
    _41: AlterMirrorsNeeds = broker
    _42: DescribeMirrorsNeeds = broker
