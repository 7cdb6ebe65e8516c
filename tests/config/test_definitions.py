import subprocess
import sys

from barnabas.config.definitions import BROKER, BY_SCOPE, GROUP, TOPIC, UNUSED, broker_setting
from barnabas.config.setting import Setting

ALL = [setting for settings in (*BY_SCOPE.values(), UNUSED) for setting in settings.values()]


def test_every_setting_has_words_and_a_default_that_it_accepts_itself() -> None:
    assert [setting.name for setting in ALL if not setting.documentation.endswith(".")] == []
    assert [setting.name for setting in ALL if not _accepts_its_default(setting)] == []


def _accepts_its_default(setting: Setting) -> bool:
    return setting.default is None or setting.parse(setting.default) == setting.default_value


def test_no_setting_is_both_used_and_unused() -> None:
    assert not BROKER.keys() & UNUSED.keys()


def test_every_scope_has_its_settings() -> None:
    assert (len(TOPIC), len(GROUP)) == (46, 23)
    assert {
        "barnabas.acks.all.fsync",
        "barnabas.disk.reserve.bytes",
        "barnabas.metrics.listen",
    } <= BROKER.keys()


def test_a_listeners_own_setting_is_found_behind_its_prefix() -> None:
    assert broker_setting("listener.name.plaintext.max.connections") is BROKER["max.connections"]
    assert broker_setting("listener.name.x.scram-sha-256.sasl.jaas.config") is BROKER["sasl.jaas.config"]
    assert broker_setting("listener.name.x.sasl.enabled.mechanisms") is BROKER["sasl.enabled.mechanisms"]
    assert broker_setting("listener.name.") is None


def test_loading_settings_needs_nothing_heavy() -> None:
    script = "import sys, barnabas.config.topic; print(*sorted({'difflib', 'asyncio', 'msgspec'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
