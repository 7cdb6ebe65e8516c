"""Setting definitions compared with those of Apache Kafka."""

from barnabas.config.checks import AtLeast, Between, BetweenOr, ListCheck, OneOf
from barnabas.config.definitions import BROKER, GROUP, TOPIC, UNUSED
from barnabas.config.setting import Setting, UpdateMode
from barnabas.config.topic_settings import TOPIC_SYNONYMS
from tests.config.kafka_definitions import BROKER_CLASS, GROUP_CLASS, TOPIC_CLASS, KafkaSetting, definitions
from tests.support.kafka.jars import requires_java

pytestmark = requires_java

OTHER_DEFAULTS = {
    # A node without any setting must start, and must not be open to the world.
    "node.id",
    "listeners",
    "controller.listener.names",
    # Kafka's folder is lost by a reboot.
    "log.dir",
    # Kafka's are smaller than the kernel's defaults.
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    # Unused by clients of Kafka 4.3; our sink needs it (docs/decisions/0016).
    "transaction.two.phase.commit.enable",
    # Uploads without a limit hold up the loop.
    "remote.log.manager.copy.max.bytes.per.second",
    # Ours are replayed before a new coordinator serves, at 35 MB/s.
    "offsets.topic.segment.bytes",
    "transaction.state.log.segment.bytes",
    # Kafka has no limits here.
    "queued.max.request.bytes",
    "max.connections",
    "max.connections.per.ip",
    # A new replica copies only the tail.
    "follower.fetch.last.tiered.offset.enable",
}
FIXED_WHILE_RUNNING = {"listeners", "listener.security.protocol.map"}
MODES = {
    UpdateMode.READ_ONLY: "read-only",
    UpdateMode.PER_BROKER: "per-broker",
    UpdateMode.CLUSTER_WIDE: "cluster-wide",
}


OF_THE_AUTHORIZER = ("super.users", "allow.everyone.if.no.acl.found")
# KIP-1191 (dead letters of share groups), KIP-1241 (copy lag of tiered topics), KIP-1071 (warm-up tasks).
OF_NEWER_KAFKA = (
    "errors.deadletterqueue.",
    "remote.copy.lag.",
    "log.remote.copy.lag.",
    *(
        f"{prefix}streams.{name}"
        for prefix in ("", "group.")
        for name in ("num.warmup.", "acceptable.", "task.offset.", "rack.aware.")
    ),
    "group.streams.max.warmup.",
    "group.streams.min.task.",
)


def is_ours(name: str) -> bool:
    """Also True for settings of Kafka 4.4, and for two that KafkaConfig leaves to its authorizer."""
    return name.startswith(("barnabas.", "zookeeper.", *OF_THE_AUTHORIZER, *OF_NEWER_KAFKA))


OF_OLD_KAFKA = {"replica.lag.max.messages"}  # until 0.9; off by default here


def public(settings: dict[str, Setting]) -> dict[str, Setting]:
    return {name: setting for name, setting in settings.items() if not setting.internal and not is_ours(name)}


def valid_values(setting: Setting) -> str | None:
    """Kafka's documentation of fixed checks."""
    check = setting.check
    if isinstance(check, BetweenOr):
        return f"[{check.low},...,{check.high}] or {check.special}"
    if isinstance(check, Between):
        return f"[{check.low},...,{check.high}]"
    if isinstance(check, AtLeast):
        return f"[{check.low},...]"
    if isinstance(check, ListCheck | OneOf):
        return f"[{', '.join(check.choices)}]"
    return None


def differences(ours: dict[str, Setting], theirs: dict[str, KafkaSetting]) -> list[str]:
    found = []
    for name, setting in ours.items():
        kafka = theirs[name]
        if setting.kind.name.lower() != kafka.kind:
            found.append(f"{name} is a {setting.kind.name}, in Kafka {kafka.kind}")
        if setting.default != kafka.default and name not in OTHER_DEFAULTS:
            found.append(f"{name} defaults to {setting.default!r}, in Kafka to {kafka.default!r}")
        allowed = valid_values(setting)
        if allowed and kafka.valid and allowed.lower() not in kafka.valid.lower():
            found.append(f"{name} allows {allowed}, in Kafka {kafka.valid}")
    return found


def test_topic_settings_are_kafkas() -> None:
    theirs = definitions(TOPIC_CLASS)
    assert set(public(TOPIC)) == set(theirs)
    assert differences(public(TOPIC), theirs) == []
    synonyms = {name: synonyms[0].name for name, synonyms in TOPIC_SYNONYMS.items() if not is_ours(name)}
    assert synonyms == {
        name: kafka.broker_name for name, kafka in theirs.items() if kafka.broker_name != "null"
    }


def test_group_settings_are_kafkas() -> None:
    theirs = definitions(GROUP_CLASS)
    assert set(public(GROUP)) == set(theirs)
    assert differences(public(GROUP), theirs) == []


def test_broker_settings_are_kafkas_and_none_is_unknown() -> None:
    theirs = definitions(BROKER_CLASS)
    ours = {name: setting for name, setting in public(BROKER).items() if name not in OF_OLD_KAFKA}
    assert set(ours) <= set(theirs)
    assert set(theirs) <= {*BROKER, *UNUSED}
    assert differences(ours, theirs) == []


def test_broker_settings_change_when_kafkas_do() -> None:
    theirs = definitions(BROKER_CLASS)
    settings = {**UNUSED, **BROKER}
    wrong = {
        name: MODES[settings[name].mode]
        for name, kafka in theirs.items()
        if MODES[settings[name].mode] != kafka.mode and not settings[name].sensitive
    }
    assert wrong == dict.fromkeys(FIXED_WHILE_RUNNING, "read-only")
