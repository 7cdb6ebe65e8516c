"""No setting of brokers, topics, clients or pipelines names code to run.

`tools.check_imports` shows that nothing here imports by name at all; this sets every setting to the name of a module
that would leave a trace.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.client.security.parsing import parse_security
from barnabas.client.security.settings import UNDERSTOOD
from barnabas.config.broker import BrokerConfig
from barnabas.config.definitions import BROKER, BY_SCOPE, UNUSED, Scope
from barnabas.config.setting import ConfigError
from barnabas.protocol.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from barnabas.security.authn.credentials import SecuritySettingError
from tests.support.server import ask, raw_broker, scenario

MODULE = "hostile_module_of_a_setting"
VALUES = (MODULE, f"{MODULE}.Plugin", f"{MODULE}:Plugin", f"python:{MODULE}", "os.system")
WORDS = ("class", "factory", "reporter", "handler", "builder", "selector", "provider", "policy", "assignor")
CLASS_LIKE = [name for name in (*BROKER, *UNUSED) if any(word in name for word in WORDS)]


@pytest.fixture(autouse=True)
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Output of the module when it is imported."""
    file = tmp_path / "trace"
    (tmp_path / f"{MODULE}.py").write_text(f"open({str(file)!r}, 'w').close()\nclass Plugin: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield file
    assert not file.exists()
    assert MODULE not in sys.modules


def test_a_module_on_the_path_would_leave_a_trace(trace: Path) -> None:
    __import__(MODULE)
    assert trace.exists()
    trace.unlink()
    del sys.modules[MODULE]


@pytest.mark.parametrize("value", VALUES)
def test_cve_2025_27819_broker_settings_import_no_classes(value: str) -> None:
    for name in (*BROKER, *UNUSED):
        with contextlib.suppress(ConfigError):
            BrokerConfig.load({name: value})


def test_settings_for_kafkas_plugins_are_rejected_or_have_no_effect() -> None:
    """Or one of a few constants, which are compared and not looked up."""
    for name in CLASS_LIKE:
        assert name in _words_about(name)


def _words_about(name: str) -> str:
    try:
        return str(BrokerConfig.load({name: VALUES[1]}).warnings)
    except ConfigError as error:
        return str(error)


@scenario
async def test_a_broker_runs_with_the_plugins_that_it_ignores_and_imports_none(tmp_path: Path) -> None:
    accepted = {}
    for name in CLASS_LIKE:
        with contextlib.suppress(ConfigError):
            BrokerConfig.load({name: VALUES[1]})
            accepted[name.replace(".", "_")] = VALUES[1]
    assert len(accepted) > 3
    async with raw_broker(tmp_path / "data", **accepted) as broker:
        client = await broker.connect()
        created = await ask(client, CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]), 5)
        assert created.topics[0].error_code == 0


@scenario
async def test_cve_2025_27818_network_input_is_neither_imported_nor_looked_up(
    tmp_path: Path,
) -> None:
    names = {Scope.TOPIC: "t", Scope.BROKER: "", Scope.GROUP: "g", Scope.CLIENT_METRICS: "m"}
    async with raw_broker(tmp_path / "data") as broker:
        client = await broker.connect()
        await ask(client, CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]), 5)
        for scope, resource in names.items():
            for setting in BY_SCOPE[scope]:
                for value in (VALUES[1], "${env:HOME}", "${file:/etc/passwd:root}"):
                    row = IncrementalAlterConfigsAlterableConfig(name=setting, value=value)
                    change = IncrementalAlterConfigsAlterConfigsResource(scope, resource, [row])
                    answer = await ask(client, IncrementalAlterConfigsRequest(resources=[change]), 1)
                    assert _looked_up(str(answer)) == []
        configs = [*broker.broker.image.configs.values()]
    assert _looked_up(str(configs)) == []


def _looked_up(text: str) -> list[str]:
    """Values of this process that must not appear in a broker's state or output."""
    return [word for word in (str(Path.home()) + "'", "/root:", "/bin/sh") if word in text and word != "/'"]


@pytest.mark.parametrize("value", VALUES)
def test_cve_2023_25194_client_settings_import_no_classes(value: str) -> None:
    for name in (*UNDERSTOOD, "sasl.login.class", "ssl.engine.factory.class", "interceptor.classes"):
        with contextlib.suppress(SecuritySettingError):
            parse_security({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", name: value})
