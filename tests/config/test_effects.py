"""Every declared setting has an effect or is documented as unused."""

import re
from pathlib import Path

import barnabas
from barnabas.config.broker import FALLBACKS, BrokerConfig
from barnabas.config.definitions import BROKER, TOPIC
from barnabas.config.topic_settings import TOPIC_SYNONYMS
from barnabas.config.unused_settings import UNUSED_SETTINGS, is_without_effect_yet

SOURCE = Path(barnabas.__file__).parent
DECLARED_IN = re.compile(r"config/(\w+/)*\w*settings\.py$")
# controller/internal_topics.py, cluster/zookeeper/settings.py, groups/settings.py
READ_BY_PREFIX = (
    "offsets.topic.",
    "transaction.state.log.",
    "zookeeper.ssl.",
    "group.streams.",
    "group.consumer.",
    "group.share.",
    "share.coordinator.state.topic.",
    "barnabas.sasl.",  # barnabas.sasl.<mechanism>.max.bytes
)


def code_that_reads() -> str:
    """Everything but the declarations."""
    files = [path for path in SOURCE.rglob("*.py") if not DECLARED_IN.search(path.as_posix())]
    return "\n".join(path.read_text() for path in files)


def test_a_broker_setting_is_read_somewhere_or_listed_as_without_effect() -> None:
    code = code_that_reads()
    defaults_of_topics = {synonym.name for synonyms in TOPIC_SYNONYMS.values() for synonym in synonyms}
    fallbacks = {synonym.name for synonyms in FALLBACKS.values() for synonym in synonyms}
    read = {
        name for name in BROKER if f'"{name}"' in code or name in fallbacks or name.startswith(READ_BY_PREFIX)
    }
    silent = {name for name in BROKER if name not in read and name not in defaults_of_topics}
    assert sorted(name for name in silent if not is_without_effect_yet(name)) == []


def test_a_topic_setting_is_read_somewhere_or_listed_as_without_effect() -> None:
    code = code_that_reads()
    fields_of = {name: name.replace(".", "_") for name in TOPIC}
    fields_of["cleanup.policy"] = "compacted"
    silent = [
        name
        for name, field in fields_of.items()
        if f'"{name}"' not in code and not re.search(rf"config\.{field}\b", code)
    ]
    assert sorted(name for name in silent if not is_without_effect_yet(name)) == []


def test_no_setting_in_use_is_listed_as_unused() -> None:
    code = code_that_reads()
    silent = {name for name in (*BROKER, *TOPIC) if is_without_effect_yet(name)} | set(UNUSED_SETTINGS)
    fields = {name for name in TOPIC if re.search(rf"config\.{name.replace('.', '_')}\b", code)}
    assert sorted(name for name in silent if f'["{name}"]' in code or name in fields) == []


def test_setting_without_effect_is_reported() -> None:
    config = BrokerConfig.load({"num.replica.fetchers": "4", "offsets.topic.compression.codec": "1"})
    assert config.warnings == (
        "num.replica.fetchers has no effect in Barnabas yet",
        "offsets.topic.compression.codec has no effect in Barnabas yet",
    )
