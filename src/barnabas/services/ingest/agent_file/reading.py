"""From the file of an agent to its sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from barnabas.config.document import Node, read_document
from barnabas.services.ingest.agent import Source
from barnabas.services.ingest.agent_file.kinds import KINDS, Common
from barnabas.services.ingest.agent_file.words import AgentWords, SourceWords
from barnabas.services.ingest.errors import IngestError


class AgentFileError(IngestError):
    """Something in the file is wrong; the text begins with the file and the line."""


class ConfiguredAgent(NamedTuple):
    name: str
    sources: Sequence[Source]
    metrics: str | None


def read_agent(path: Path, host: str) -> ConfiguredAgent:
    """AgentFileError for anything that is wrong in it, with the line."""
    document = read_document(path, AgentFileError, needs="sources")
    words = document.value(AgentWords)
    sources: dict[str, Source] = {}
    nodes = document.fields["sources"][1].items
    if not nodes:
        document.fields["sources"][1].fail("an agent needs at least one source.")
    for node in nodes:
        source = _source(node, words, words.host or host)
        if source.name in sources:
            node.fail(
                f"two sources are named {source.name}: give this one a `name`, under which its positions are stored."
            )
        sources[source.name] = source
    return ConfiguredAgent(words.agent or f"{host}-{path.stem}", list(sources.values()), words.metrics)


def _source(node: Node, agent: AgentWords, host: str) -> Source:
    fields = node.fields
    if len(fields) != 1:
        node.fail(
            f"a source is one of {', '.join(KINDS)} with its words below it, as `- files: {{paths: ...}}`."
        )
    [(kind, (word, value))] = fields.items()
    node.known(word, kind, list(KINDS))
    found = KINDS[kind]
    words = value.value(found.words)
    try:
        return found.make(words, _common(kind, words, agent, host))
    except ValueError as error:
        node.fail(f"{error}.")


def _common(kind: str, words: SourceWords, agent: AgentWords, host: str) -> Common:
    topic = words.topic or agent.topic
    if topic is None:
        raise ValueError("neither the source nor the agent says to which `topic`")
    headers = {**agent.headers, **words.headers}
    return Common(
        words.name or kind,
        host,
        topic,
        words.key or agent.key,
        tuple((name, value.encode()) for name, value in headers.items()),
    )


def describe(agent: ConfiguredAgent) -> list[dict[str, object]]:
    """For `--check`: the sources, and the topics that they write."""
    return [
        {
            "source": source.name,
            "kind": type(source).__name__.removesuffix("Source").lower(),
            "topics": [*source.topics],
        }
        for source in agent.sources
    ]
