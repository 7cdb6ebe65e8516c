"""A query's progress as the offsets of a consumer group, so that every tool that shows lag shows it too."""

from __future__ import annotations

import logging

from barnabas.client.errors import ClientError
from barnabas.client.groups import commit_offsets
from barnabas.errors import KafkaError
from barnabas.pipelines.broker_link import BrokerLink
from barnabas.pipelines.source.offsets import Offsets

log = logging.getLogger(__name__)


def commit_progress(link: BrokerLink, group: str, offsets: Offsets) -> None:
    """Never a reason for a query to fail: a restart goes by Spark's checkpoint alone."""
    try:
        link.run(commit_offsets(link.client, group, offsets))
    except (ClientError, KafkaError) as error:
        log.warning("the progress of group %s could not be committed: %s", group, error)
