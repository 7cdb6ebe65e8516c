"""What the runner asks the broker itself: that it answers, that topics are there."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client import admin
from barnabas.client.cluster import Client
from barnabas.client.errors import CannotConnectError, SecurityError
from barnabas.client.security.settings import PLAINTEXT, Security
from barnabas.common.errors import ErrorCode, KafkaError
from barnabas.spark.broker_link import BrokerLink
from barnabas.pipelines.connection import security_of
from barnabas.pipelines.definitions.files import BOOTSTRAP, PipelineFiles
from barnabas.pipelines.definitions.settings import TopicWanted
from barnabas.spark.errors import PipelineError
from barnabas.security.secret import SecuritySettingError

PATIENCE = 15.0  # seconds for one question with all its attempts, before anything is started


class BrokerChecks:
    """Asks over one connection, from one thread."""

    def __init__(self, bootstrap: str, security: Security = PLAINTEXT) -> None:
        self._bootstrap = bootstrap
        try:
            self._link = BrokerLink(
                bootstrap, client_id="barnabas-pipeline", total_timeout=PATIENCE, security=security
            )
        except SecuritySettingError as error:
            raise PipelineError(f"barnabas.{error}.") from None
        except ValueError as error:
            raise PipelineError(
                f"barnabas.bootstrap.servers={bootstrap} is no list of HOST:PORT.", error
            ) from None

    def close(self) -> None:
        self._link.close()

    def require_topics(self, names: Iterable[str]) -> None:
        """PipelineError when the broker does not answer, or when there is no such topic."""
        try:
            known = self._link.run(self._link.client.all_topics())
        except CannotConnectError as error:
            raise PipelineError(
                f"No broker answers at {self._bootstrap}. `barnabas serve` starts one; elsewhere, say where with "
                "`--set barnabas.bootstrap.servers=HOST:PORT`.",
                error,
            ) from None
        except SecurityError as error:
            raise PipelineError(f"The pipeline is not let in: {error}.") from None
        for name in sorted(names):
            if name not in known:
                raise PipelineError(
                    f"There is no topic {name} at {self._bootstrap}, and the pipeline reads it: "
                    f"`barnabas topics create {name}` makes one, `barnabas topics list` shows what there is."
                )

    def make_missing(self, wanted: Iterable[TopicWanted]) -> None:
        self._link.run(_make_missing(self._link.client, list(wanted)))


def require_broker(files: PipelineFiles) -> None:
    """PipelineError when the broker that the files name does not answer: to find that out, Spark need not start."""
    if BOOTSTRAP not in files.configuration:
        return
    checks = BrokerChecks(files.bootstrap, security_of(files.configuration))
    try:
        checks.require_topics(())
    finally:
        checks.close()


async def _make_missing(client: Client, wanted: list[TopicWanted]) -> None:
    known = await client.all_topics()
    for topic in wanted:
        if topic.name in known:
            continue
        try:
            await admin.create_topic(
                client, topic.name, partitions=topic.partitions, configs=dict(topic.settings)
            )
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # another client was faster
                raise
