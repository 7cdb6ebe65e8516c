"""The options of `format("barnabas")`, each declared once: name, purpose, and the sides that accept it.

Names and meanings are those of Spark's Kafka connector, so that only the format of a query changes. As in Spark, names
are case-insensitive. An unknown option is an error that suggests the closest name: a misspelt `startingOffset` must not
read a topic from the wrong end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, NamedTuple

from barnabas.client.schemas import (
    RegistryAccount,
    check_registry_setting,
    is_registry_setting,
    parse_registry,
)
from barnabas.common.suggestions import closest
from barnabas.security.authn import SecuritySettingError
from barnabas.spark.client_settings import CLIENT_PREFIX, KNOWN, SparkClientSettings, check_client_setting

# -- All options except `kafka.*`, which are in `client_settings.py` -----------------------------------

Side = Literal["source", "sink"]
SOURCE: tuple[Side, ...] = ("source",)
SINK: tuple[Side, ...] = ("sink",)


class Option(NamedTuple):
    name: str
    sides: tuple[Side, ...]
    meaning: str
    default: str | None = None


OPTIONS: tuple[Option, ...] = (
    # Selection of records.
    Option("subscribe", SOURCE, "Topics, separated by commas."),
    Option(
        "subscribePattern",
        SOURCE,
        "A regular expression (RE2), searched in topic names: `orders` also matches `old-orders`, `^orders$` does not. "
        "Kafka's internal topics are excluded.",
    ),
    Option("assign", SOURCE, 'Partitions as JSON: `{"orders":[0,1]}`.'),
    Option(
        "startingOffsets",
        SOURCE,
        (
            '`earliest`, `latest`, or JSON: `{"orders":{"0":23,"1":-2}}` (-2 earliest, -1 latest). A batch read '
            "starts at `earliest`, a stream at `latest`."
        ),
    ),
    Option(
        "startingOffsetsByTimestamp",
        SOURCE,
        "Milliseconds by partition, as JSON; takes precedence over `startingOffsets`.",
    ),
    Option(
        "startingTimestamp", SOURCE, "Milliseconds, for all partitions; takes precedence over both others."
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        SOURCE,
        "If no record is as new as the timestamp: `error` or `latest`.",
        "error",
    ),
    Option("endingOffsets", SOURCE, "As `startingOffsets`, for batch reads.", "latest"),
    Option("endingOffsetsByTimestamp", SOURCE, "As `startingOffsetsByTimestamp`, for batch reads."),
    Option("endingTimestamp", SOURCE, "As `startingTimestamp`, for batch reads."),
    Option(
        "failOnDataLoss",
        SOURCE,
        "Fail the query if records were deleted before they were read, or a topic was deleted.",
        "true",
    ),
    # From an object store, without a broker.
    Option(
        "remote",
        SOURCE,
        "Read from an object store with tiered topics instead of brokers: `s3://BUCKET/PREFIX`, `gs://...`, `az://...` "
        "or `file:///FOLDER`. `remote.NAME` is option NAME of the store.",
    ),
    Option("clusterId", SOURCE, "Id of the cluster, if an object store has several."),
    Option("snapshot", SOURCE, "Snapshot in the object store, for batch reads."),
    # Size of batches and tasks.
    Option(
        "maxOffsetsPerTrigger",
        SOURCE,
        "Maximum offsets per micro-batch, distributed in proportion to the partitions' lag.",
    ),
    Option("minOffsetsPerTrigger", SOURCE, "Minimum offsets for a micro-batch."),
    Option("maxTriggerDelay", SOURCE, "Maximum delay by `minOffsetsPerTrigger`.", "15m"),
    Option("minPartitions", SOURCE, "Minimum number of Spark tasks: large partitions are split."),
    Option("maxRecordsPerPartition", SOURCE, "Maximum offsets per Spark task."),
    Option(
        "sharedTaskRecords",
        SOURCE,
        "Partitions share a Spark task up to this many offsets in total, up to five times as many if enough tasks "
        "remain; 0 gives each partition a separate task.",
        "100000",
    ),
    # Format of rows.
    Option("includeHeaders", (*SOURCE, *SINK), "Adds a column `headers`.", "false"),
    Option(
        "columns",
        SOURCE,
        "Columns to decode and transfer, separated by commas; others cost nothing. `*`: all fields of the value.",
    ),
    Option(
        "value.format",
        SOURCE,
        "`json`, `avro`, `protobuf`, `csv` or `string`: the value's fields become typed columns.",
    ),
    Option(
        "value.schema",
        SOURCE,
        "Fields of the value as DDL: `user STRING, amount DOUBLE`; or use `.schema(...)`.",
    ),
    Option("value.avro.schema", SOURCE, "The writer's Avro schema, as JSON."),
    Option(
        "value.registry",
        SOURCE,
        "URL of a schema registry, or `true` for that of `schema.registry.url` or of the cluster: values of `avro`, "
        "`protobuf` and `json` begin with the id of their writer's schema. Default: `true` for `avro` and `protobuf` "
        "without a schema. Then the columns are those of the newest schema of the subject TOPIC-value.",
    ),
    Option(
        "value.protobuf.message",
        SOURCE,
        "Full name of the message, `shop.Order`; by default the first one of the schema.",
    ),
    Option("value.csv.delimiter", SOURCE, "Field delimiter of CSV values.", ","),
    Option(
        "mode",
        SOURCE,
        (
            "For values that do not match the schema: `PERMISSIVE` (columns are null), `DROPMALFORMED` or "
            "`FAILFAST`."
        ),
        "PERMISSIVE",
    ),
    Option(
        "columnNameOfCorruptRecord",
        SOURCE,
        "Column for values that do not match, if the schema has it: BINARY, or STRING as text.",
        "_corrupt_record",
    ),
    # Communication with brokers.
    Option(
        "groupIdPrefix",
        SOURCE,
        "Prefix of the group that progress is committed to.",
        "spark-barnabas",
    ),
    Option(
        "commitProgress",
        SOURCE,
        (
            "Commit progress to a consumer group after each micro-batch, for lag tools. Never used for a "
            "restart."
        ),
        "true",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        SOURCE,
        "Timeout of a task for records that must exist.",
        "120000",
    ),
    Option(
        "fetchOffset.numRetries",
        SOURCE,
        "Attempts of the driver to fetch offsets, if they are lower than before.",
        "3",
    ),
    Option("fetchOffset.retryIntervalMs", SOURCE, "Interval between these attempts.", "1000"),
    # The sink.
    Option("topic", SINK, "Topic of rows without a column `topic`."),
    Option("checkpointLocation", SINK, "Spark's own; the sink's identity is derived from it."),
    Option("sinkId", SINK, "The sink's identity, instead of the checkpoint's location."),
    Option(
        "batchOf",
        SINK,
        "For a job in `foreachBatch`: the id of the query whose batch it writes; with `batchNumber` and `sinkId` the "
        "batch is written once, even if Spark repeats it.",
    ),
    Option("batchNumber", SINK, "The number of that batch."),
    Option(
        "delivery",
        SINK,
        "`exactly-once`, or `at-least-once` for brokers without transactions.",
        "exactly-once",
    ),
    Option(
        "includeTimestamp",
        SINK,
        "Use the column `timestamp` as the records' timestamp.",
        "false",
    ),
    Option(
        "handedOverBytes",
        SINK,
        "A task with at most this many bytes sends its rows to the driver, which writes them with its decision.",
        "65536",
    ),
    Option(
        "value.format",
        SINK,
        "`avro`, `json` (JSON Schema) or `protobuf`: the column `value`, mostly a struct, is written with the id "
        "of its schema in a registry.",
    ),
    Option("key.format", SINK, "As `value.format`, for the column `key`."),
    Option(
        "value.subject.name.strategy",
        SINK,
        "Subject of the schema: `TopicNameStrategy` (TOPIC-value), `RecordNameStrategy` or `TopicRecordNameStrategy`.",
        "TopicNameStrategy",
    ),
    Option("key.subject.name.strategy", SINK, "As for the value.", "TopicNameStrategy"),
    Option(
        "value.record.name", SINK, "Full name of the record, `shop.Order`; default: from the topic's name."
    ),
    Option("key.record.name", SINK, "As for the value."),
    Option(
        "auto.register.schemas",
        SINK,
        "Register the schema of the rows; `false`: the subject must have it. Default: `true`, unless "
        "`use.latest.version`.",
    ),
    Option(
        "use.latest.version",
        SINK,
        "Write with the newest schema of the subject, which the columns must fit.",
        "false",
    ),
    Option("normalize.schemas", SINK, "As in Confluent's clients.", "false"),
    Option(
        "tornBatch",
        SINK,
        "For a batch that the broker has partially aborted: `fail`, `skip` it, or `rerun` it completely.",
        "fail",
    ),
)

STORE_PREFIX = "remote."


class OptionError(ValueError):
    """An option that is unknown, missing, or has an invalid value."""


# Set by Spark itself; not for data sources.
_SPARKS_OWN = frozenset({"path", "paths", "queryname", "outputmode", "triggerinterval"})


class Options:
    """The given options, checked for unknown names; values are checked when read."""

    def __init__(self, raw_options: Mapping[str, str], side: Side) -> None:
        self._side = side
        self._values = {name.lower(): value for name, value in raw_options.items()}
        self._names = {option.name.lower(): option for option in OPTIONS if side in option.sides}
        for name in raw_options:
            self._check_name(name)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        """The given value, or the default; None if there is neither."""
        value = self._values.get(name.lower())
        return self._names[name.lower()].default if value is None else value.strip()

    def internal(self, name: str) -> str | None:
        """An option that Barnabas gives to itself; its name begins with two underscores."""
        return self._values.get(name)

    def require(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise OptionError(f"option {name!r} must be given")
        return value

    def flag(self, name: str) -> bool:
        value = (self.text(name) or "false").lower()
        if value not in ("true", "false"):
            raise OptionError(f"option {name!r} must be true or false, not {value!r}")
        return value == "true"

    def number(self, name: str, at_least: int = 0) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            raise OptionError(f"option {name!r} must be a whole number, not {value!r}") from None
        if number < at_least:
            raise OptionError(f"option {name!r} must be at least {at_least}, not {number}")
        return number

    def choice(self, name: str, choices: Iterable[str]) -> str | None:
        """One of several words, spelled as in `choices`."""
        value = self.text(name)
        if value is None:
            return None
        by_lower = {choice.lower(): choice for choice in choices}
        if value.lower() not in by_lower:
            raise OptionError(f"option {name!r} must be one of {', '.join(by_lower.values())}, not {value!r}")
        return by_lower[value.lower()]

    def client_settings(self) -> SparkClientSettings:
        """The parsed `kafka.*` options."""
        return SparkClientSettings.parse(dict(self.prefixed(CLIENT_PREFIX)))

    @property
    def is_registered(self) -> bool:
        """True if values begin with a schema id although their fields are given."""
        return (self._values.get("value.registry") or "false").lower() != "false"

    def registry(self) -> RegistryAccount:
        """The registry that options name, or that the cluster runs; OptionError if there is none."""
        url = self._values.get("value.registry", "")
        with _as_option():
            account = parse_registry(self._values, None if url.lower() in ("true", "false") else url)
        account = account or RegistryAccount()
        if not account.is_located and self.client_text("bootstrap.servers"):
            account = _discovered(self.client_settings(), account) or account
        if not account.is_located:
            raise OptionError(
                "no schema registry: set the option 'schema.registry.url'; the cluster names none"
            )
        return account

    def client_text(self, name: str) -> str | None:
        return self._values.get(CLIENT_PREFIX + name)

    def prefixed(self, prefix: str) -> Iterator[tuple[str, str]]:
        """(name without the prefix, value) of all options that have it."""
        for name, value in self._values.items():
            if name.startswith(prefix):
                yield name.removeprefix(prefix), value

    def _check_name(self, name: str) -> None:
        lower = name.lower()
        if lower.startswith(CLIENT_PREFIX):
            check_client_setting(lower.removeprefix(CLIENT_PREFIX), self._side)
        elif is_registry_setting(lower):
            with _as_option():
                check_registry_setting(lower)
        elif lower.startswith(STORE_PREFIX) and self._side == "source":
            return  # obstore rejects unknown options
        elif lower not in self._names and lower not in _SPARKS_OWN and not lower.startswith("__"):
            raise OptionError(self._unknown(name))

    def _unknown(self, name: str) -> str:
        known = {option.name.lower(): option.name for option in self._names.values()}
        if name.lower() in KNOWN:
            return f"unknown option {name!r}: settings of the client need a prefix, {CLIENT_PREFIX + name!r}"
        match = closest(name.lower(), known)
        hint = (
            f"; did you mean {known[match]!r}?"
            if match is not None
            else f"; options: {', '.join(known.values())}"
        )
        return f"unknown option {name!r} of the {self._side}{hint}"


def _discovered(settings: SparkClientSettings, account: RegistryAccount) -> RegistryAccount | None:
    from barnabas.client.schemas import discover_registry
    from barnabas.client.schemas.client import RegistryError
    from barnabas.spark.broker_link import link_to

    link = link_to(**settings.link)
    try:
        return link.run(discover_registry(link.client, account))
    except RegistryError as error:
        raise OptionError(str(error)) from None


@contextmanager
def _as_option() -> Iterator[None]:
    """Report an invalid setting of the registry as an invalid option."""
    try:
        yield
    except SecuritySettingError as error:
        raise OptionError(f"option {error.setting!r} {error.problem}") from None


def parse_duration_ms(text: str) -> int:
    """Milliseconds of Spark's durations: `15m`, `30s`, `500ms`; a plain number is milliseconds."""
    units = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = text[len(text.rstrip("abcdefghijklmnopqrstuvwxyz")) :] or "ms"
    if unit not in units or not digits.isdigit():
        raise OptionError(f"not a valid duration: {text!r} (a number and one of {', '.join(units)})")
    return int(digits) * units[unit]
