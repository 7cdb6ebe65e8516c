"""Request bodies: deep, wide and cyclic schemas, forms, and records as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

LARGEST = 900_000  # of a schema; the registry takes a megabyte
MAX_RECORDS = 4_000_000  # of a decompressed body: the default limit of the HTTP source
TYPES = ("AVRO", "JSON", "PROTOBUF")


class Bodies:
    def __init__(self, source: Random) -> None:
        self._source = source

    def size(self, limit: int) -> int:
        """As often in each order of magnitude."""
        return int(10 ** self._source.uniform(0, len(str(limit)) - 1)) if limit > 9 else limit

    def schema_request(self) -> bytes:
        kind = self._source.choice(TYPES)
        text = self._source.choice(_SCHEMAS[kind])(self.size(LARGEST))[:LARGEST]
        if self._source.random() < 0.1:
            text = self._damaged(text)
        request: dict[str, object] = {"schemaType": kind, "schema": text}
        if self._source.random() < 0.1:
            count = self.size(1000)
            request["references"] = [
                {"name": f"{number}.proto", "subject": "s", "version": 1} for number in range(count)
            ]
        return json.dumps(request).encode()

    def setting(self) -> bytes:
        value: object = self._source.choice(
            ["BACKWARD", "x" * self.size(LARGEST), 10**400, None, [[]] * 1000]
        )
        return json.dumps({self._source.choice(["compatibility", "mode", "alias"]): value}).encode()

    def form(self) -> bytes:
        return self._source.choice(_FORMS)(self.size(2_000_000))

    def records(self) -> bytes:
        return self._source.choice(_RECORDS)(self.size(MAX_RECORDS))

    def any_json(self) -> bytes:
        return self._source.choice(_RECORDS)(self.size(1_000_000))

    def _damaged(self, text: str) -> str:
        at = self._source.randrange(len(text) or 1)
        return text[:at] + self._source.choice(["", "\0", "}", '"', "\u20ac", "9" * 5000]) + text[at + 1 :]


def _deep(start: str, inner: str, end: str, bytes_left: int) -> str:
    depth = max(1, bytes_left // len(start + end))
    return start * depth + inner + end * depth


def _reference_chain(size: int) -> str:
    count = max(2, min(size // 80, 5000))
    chained = {
        f"d{number}": {"allOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2, "properties": {f"p{number}": {}}}
        for number in range(count)
    }
    return json.dumps({"$ref": "#/$defs/d0", "$defs": {**chained, f"d{count}": {"type": "string"}}})


def _json_schemas() -> list[Callable[[int], str]]:
    return [
        _reference_chain,
        lambda size: _deep('{"properties":{"a":', '{"type":"string"}', "}}", size),
        lambda size: _deep('{"items":', "true", "}", size),
        lambda size: json.dumps({"properties": {f"p{n}": {"type": "integer"} for n in range(size // 30)}}),
        lambda size: json.dumps({"patternProperties": {f"^a{n}.*b$": {"type": "object"} for n in range(size // 40)}}),
        lambda size: json.dumps({"anyOf": [{"const": n} for n in range(size // 15)]}),
        lambda size: json.dumps({"enum": list(range(size // 7))}),
        lambda size: '{"type":"string","maxLength":1e999}',
        lambda size: '{"minimum":' + "9" * min(size, 200_000) + "}",
        lambda size: json.dumps({"pattern": "(a|b|ab)*" * (size // 9) + "$", "type": "string"}),
    ]  # fmt: skip


def _avro_schemas() -> list[Callable[[int], str]]:
    def record(name: str, fields: list[object]) -> dict[str, object]:
        return {"type": "record", "name": name, "fields": fields}

    return [
        lambda size: json.dumps([record(f"r{n}", []) for n in range(max(1, size // 45))]),
        lambda size: json.dumps(record("r", [{"name": f"f{n}", "type": "int"} for n in range(size // 25)])),
        lambda size: json.dumps({"type": "enum", "name": "e", "symbols": [f"s{n}" for n in range(size // 8)]}),
        lambda size: _deep('{"type":"array","items":', '"int"', "}", size),
        lambda size: json.dumps(record(".".join(["name"] * (size // 5 + 1)), [])),
        lambda size: json.dumps({"type": "fixed", "name": "f", "size": 10 ** min(size, 4000)}),
        lambda size: json.dumps({**record("r", []), "aliases": [f"a{n}" for n in range(size // 8)]}),
    ]  # fmt: skip


def _protobuf_schemas() -> list[Callable[[int], str]]:
    head = 'syntax = "proto3";\n'
    return [
        lambda size: head + _deep("message m {", "int32 a = 1;", "}", size),
        lambda size: (
            head + "message m {" + "".join(f"int32 f{n} = {n + 1};" for n in range(size // 16)) + "}"
        ),
        lambda size: head + "".join(f"message m{n} {{}}\n" for n in range(size // 14)),
        lambda size: head + "".join(f'import "{n}.proto";\n' for n in range(size // 18)),
        lambda size: head + "message " + "m" * size + " {}",
        lambda size: head + "message m {" + "/*" * (size // 2) + "}",
    ]


_SCHEMAS: dict[str, list[Callable[[int], str]]] = {
    "JSON": _json_schemas(),
    "AVRO": _avro_schemas(),
    "PROTOBUF": _protobuf_schemas(),
}
_FORMS: list[Callable[[int], bytes]] = [
    lambda size: b"%" * size,
    lambda size: b"name=" + b"%41" * (size // 3),
    lambda size: b"&".join(b"f%d=1" % number for number in range(size // 8)),
    lambda size: b"a=1&" * (size // 4),
    lambda size: b"password=" + b"x" * size,
    lambda size: b"+" * size + b"=" * size,
]
_RECORDS: list[Callable[[int], bytes]] = [
    lambda size: b"[" + b"0," * (size // 2) + b"0]",
    lambda size: b"[" * size + b"]" * size,
    lambda size: b'{"a":' * (size // 6) + b"1" + b"}" * (size // 6),
    lambda size: b"[" + b",".join([b'{"a":"b"}'] * (size // 10 + 1)) + b"]",
    lambda size: b"{}\n" * (size // 3),
    lambda size: b'"' + b"\\u0041" * (size // 6) + b'"',
    lambda size: b"9" * size,
    lambda size: b"[1e" + b"9" * min(size, 1000) + b"]",
    lambda size: b'{"' + b'":1,"'.join(b"k%d" % number for number in range(size // 10 + 1)) + b'":1}',
    lambda size: b"\xff" * size,
    lambda size: b'"\\ud800"',
]
