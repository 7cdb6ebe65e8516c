"""Apache Kafka's setting definitions, parsed from the documentation that its classes print."""

import functools
import html
import re
from typing import NamedTuple

from tests.support.kafka.tools import run_tool

TOPIC_CLASS = "org.apache.kafka.storage.internals.log.LogConfig"
BROKER_CLASS = "kafka.server.KafkaConfig"
GROUP_CLASS = "org.apache.kafka.coordinator.group.GroupConfig"

_ITEM = re.compile(r"<h4><a id=\"([^\"]+)\">.*?<tbody>(.*?)</tbody>", re.DOTALL)
_CELL = re.compile(r"<tr><th>(.*?):</th><td>(.*?)</td></tr>", re.DOTALL)
_IN_WORDS = re.compile(r" \([^()]*\)$")


class KafkaSetting(NamedTuple):
    kind: str
    default: str | None
    valid: str
    mode: str
    broker_name: str


@functools.cache
def definitions(main_class: str) -> dict[str, KafkaSetting]:
    page = run_tool(main_class).check().stdout
    return {name: _setting(dict(_CELL.findall(table))) for name, table in _ITEM.findall(page)}


def _setting(cells: dict[str, str]) -> KafkaSetting:
    default = html.unescape(_IN_WORDS.sub("", cells["Default"]))
    return KafkaSetting(
        cells["Type"],
        None if default == "null" else default.replace('""', ""),
        html.unescape(cells["Valid Values"]),
        cells.get("Update Mode", ""),
        cells.get("Server Default Property", ""),
    )
