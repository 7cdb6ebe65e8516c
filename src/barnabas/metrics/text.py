"""The registry as Prometheus reads it: text format 0.0.4."""

from __future__ import annotations

import math

from barnabas.metrics.registry import Registry, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(registry: Registry) -> str:
    """Return all metrics as text, one block for each name."""
    lines: list[str] = []
    for family in registry.families():
        lines.append(f"# HELP {family.name} {_escape_help(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines.extend(_line(family.name, sample) for sample in family.samples())
    return "\n".join(lines) + "\n"


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{label}="{_escape_label(text)}"' for label, text in sample.labels)
    return (
        f"{name}{sample.suffix}{{{labels}}} {_number(sample.value)}"
        if labels
        else (f"{name}{sample.suffix} {_number(sample.value)}")
    )


def _number(value: float) -> str:
    if isinstance(value, int) or (math.isfinite(value) and value == int(value)):
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def _escape_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escape_label(text: str) -> str:
    """Client ids and the like come from anybody: a quote or a line end must not break the page."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
