"""`agent.yml`: keys, and error messages. No broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.services.ingest.agent_file import AgentFileError, ConfiguredAgent, read_agent
from barnabas.services.ingest.files.source import FilesSource
from barnabas.services.ingest.host.source import HostSource
from barnabas.services.ingest.http.source import HttpSource
from barnabas.services.ingest.syslog.source import SyslogSource

FULL = r"""
agent: web-1
topic: logs
headers: {site: berlin}
metrics: 127.0.0.1:9180
sources:
  - files:
      paths: ['/srv/app/*.log', '/srv/app/*.gz']
      multiline: {start: '^\d{4}-', timeout: 2s}
      headers: {app: shop}
      compression: lz4
  - files:
      name: plain
      paths: /var/log/syslog
      topic: syslog
      key: here
      max_line_bytes: 65536
      dead_letters: bad
  - host: {topic: host.metrics, every: 10s, prometheus: 'shop=http://127.0.0.1:1/metrics', tps: orders_total}
"""


def read(folder: Path, text: str) -> ConfiguredAgent:
    path = folder / "agent.yml"
    path.write_text(text)
    return read_agent(path, "box")


def test_all_words_arrive_in_their_sources(tmp_path: Path) -> None:
    agent = read(tmp_path, FULL)
    assert (agent.name, agent.metrics) == ("web-1", "127.0.0.1:9180")
    app, plain, host = agent.sources
    assert isinstance(app, FilesSource)
    assert (app.name, app.topics, app.settings.compression) == ("files", ["logs", "logs.dead-letters"], "lz4")
    assert app.settings.headers == (("site", b"berlin"), ("app", b"shop"))
    assert app.settings.multiline.search("2026-11-17") is not None
    assert app.settings.multiline_timeout == 2.0
    assert isinstance(plain, FilesSource)
    assert (plain.name, plain.topics, plain.settings.key) == ("plain", ["syslog", "bad"], "here")
    assert plain.settings.max_line_bytes == 65536
    assert isinstance(host, HostSource)
    assert (host.settings.every, host.settings.tps, host.topics) == (10.0, "orders_total", ["host.metrics"])
    assert host.settings.pages == (("shop", "http://127.0.0.1:1/metrics"),)
    host.close()


def test_an_agent_without_a_name_has_that_of_its_machine_and_file(tmp_path: Path) -> None:
    agent = read(tmp_path, "sources: [{files: {paths: [/a], topic: t}}]")
    assert (agent.name, agent.metrics) == ("box-agent", None)


def test_sources_that_listen(tmp_path: Path) -> None:
    agent = read(
        tmp_path,
        "topic: t\nkey: all\nsources:\n"
        "  - syslog: {listen: ['udp://127.0.0.1:1', 'tcp://127.0.0.1:1'], format: raw, idle_timeout: 2m}\n"
        "  - http: {topic: u, http_headers: [X-Id], timeout: 5s, idempotency_ttl: 2h, headers: {a: b}}\n",
    )
    syslog, http = agent.sources
    assert isinstance(syslog, SyslogSource)
    assert (syslog.settings.format, syslog.settings.idle_timeout, syslog.settings.key) == (
        "raw",
        120.0,
        "all",
    )
    assert isinstance(http, HttpSource)
    assert (http.settings.http_headers, http.settings.headers) == (("X-Id",), (("a", b"b"),))
    assert (http.settings.timeout, http.settings.idempotency_ttl, http.topics) == (5.0, 7200.0, ["u"])


WRONG = {
    "topic: t\nsources:\n  - syslog: {listen: 'ftp://h:1'}": r"line 3: .* unknown scheme ftp://",
    "topic: t\nsources:\n  - syslog: {max_message_bytes: 1}": r"line 3: max_message_bytes must be at least 480",
    "topic: t\nsources:\n  - http: {listen: '0.0.0.0:1'}": r"line 3: listen is 0.0.0.0:1, which other machines",
    "topic: t\nkey: k\nsources:\n  - http: {key_field: u}": r"line 4: key and key_field are mutually exclusive",
    "topic: t\nsources:\n  - http: {connections: 0}": r"line 3: connections, .* must be greater than 0",
    "topic: t\nsources:\n  - http: {token_file: /nowhere}": r"line 3: token_file=/nowhere cannot be read",
    "sources: [{files: {paths: [/a], topik: t}}]": r"line 1: unknown key `topik`; did you mean `topic`\?",
    "topic: t\nsources:\n  - files:\n      paths: [/a]\n      multiline: {strat: x}": (
        r"line 5: unknown key `strat`; did you mean `start`\?"
    ),
    "topic: t\nsources:\n  - fles: {paths: [/a]}": r"line 3: unknown key `fles`; did you mean `files`\?",
    "topic: t\nsource: []": r"line 2: unknown key `source`; did you mean `sources`\?",
    "zzz: 1": r"line 1: unknown key `zzz`; known keys: agent, ",
    "topic: t\nsources:\n  - files:\n      paths: [/a]\n      max_line_bytes: many": r"line 5: Expected `int`",
    "topic: t\nsources:\n  - files:\n      paths:\n       - 5": r"line 5: Expected `str`",
    "topic: t\nsources:\n  - files: {paths: [/a], compression: rar}": r"line 3: Invalid enum value 'rar'",
    "topic: t\nsources:\n  - files: {paths: [/a], max_line_bytes: 5}": r"line 3: max_line_bytes must be at least 1024",
    "topic: t\nsources:\n  - files: {topic: u}": r"line 3: Object missing required field `paths`",
    "sources:\n  - files: {paths: [/a]}": r"line 2: `topic` is missing: set it for the source or the agent",
    "topic: t\nsources:\n  - files: {paths: [/a]}\n  - files: {paths: [/b]}": r"line 4: two sources are named files",
    "topic: t\nsources:\n  - files: {paths: [/a], multiline: {start: '(?=x)'}}": r"line 3: not a valid RE2 pattern",
    "topic: t\nsources:\n  - host: {every: soon}": r"line 3: not a valid duration: 'soon'",
    "topic: t\nsources:\n  - host: {prometheus: 'file:///etc/passwd'}": r"line 3: not a valid metrics page",
    "topic: t\nsources:\n  - files: {paths: [/a]}\n    host: {}": r"line 3: a source must be one of files",
    "topic: t\nsources: []": r"line 2: an agent needs at least one source",
    "topic: t\nsources: files": r"line 2: Expected `array`",
    "topic: t\nsources:\n  - files": r"line 3: Expected `object`",
    "topic: t\ntopic: u\nsources: []": r"line 2: duplicate key `topic`",
    "topic: [": r"line \d: invalid YAML",
    "a: &a [1]\nb: *a": r"line 2: aliases",
    "": r"is empty; it needs at least `sources`",
    "- 1": r"line 1: expected a mapping",
    "topic: !!python/object/apply:os.system ['x']\nsources: []": r"line 1: .*could not determine a constructor",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items(), ids=range(len(WRONG)))
def test_errors_are_named_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(AgentFileError, match=message):
        read(tmp_path, text)


def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent.yml").write_bytes(b"\xff\xfe")
    with pytest.raises(AgentFileError, match="not valid UTF-8"):
        read_agent(tmp_path / "agent.yml", "box")
    with pytest.raises(AgentFileError, match="bytes; the maximum is"):
        read(tmp_path, "#" * (2 << 20))
    with pytest.raises(AgentFileError, match="invalid YAML"):
        read(tmp_path, "[" * 1_000)
