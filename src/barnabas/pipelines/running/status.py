"""Status of a pipeline in a file of its folder, read by `barnabas pipeline status` during and after a run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import msgspec

from barnabas.client.status import ProcessStatus as ReportedStatus
from barnabas.client.status import StatusPart
from barnabas.pipelines.running.progress import FlowProgress

FOLDER = ".barnabas"
State = Literal["running", "stopped", "failed", "lost"]


class PipelineStatus(msgspec.Struct):
    pipeline: str
    state: State
    process: int
    updated: float
    flows: list[FlowProgress] = []
    alarms: list[str] = []
    """Alarms that are firing."""
    error: str | None = None


class StatusFile:
    def __init__(self, folder: Path) -> None:
        self._path = folder / FOLDER / "status.json"

    def write(self, status: PipelineStatus) -> None:
        """Write the file atomically."""
        self._path.parent.mkdir(exist_ok=True)
        aside = self._path.with_name(f"status.{os.getpid()}.new")
        aside.write_bytes(msgspec.json.encode(status))
        aside.replace(self._path)

    def read(self) -> PipelineStatus | None:
        """Return None if the pipeline never ran here. The state is `lost` if the process ended without an update."""
        if not self._path.exists():
            return None
        status = msgspec.json.decode(self._path.read_bytes(), type=PipelineStatus)
        if status.state == "running" and not is_alive(status.process):
            status.state = "lost"
        return status


def new_status(pipeline: str, state: State, flows: list[FlowProgress]) -> PipelineStatus:
    return PipelineStatus(pipeline, state, os.getpid(), time.time(), flows)


def as_reported(status: PipelineStatus) -> ReportedStatus:
    """Convert to the format of `__barnabas_status`, which agents and mirrors use too."""
    parts = [_part(flow) for flow in status.flows]
    return ReportedStatus(
        "pipeline", status.pipeline, status.state, error=status.error or "", alarms=status.alarms, parts=parts
    )


def _part(flow: FlowProgress) -> StatusPart:
    counts: dict[str, int | float] = {
        "rows": flow.rows,
        "late": flow.late,
        "input_rate": round(flow.input_rate, 3),
        "processed_rate": round(flow.processed_rate, 3),
        "batch": flow.batch,
        "batch_seconds": flow.batch_seconds,
        "state_rows": flow.state_rows,
        "state_bytes": flow.state_bytes,
    }
    return StatusPart(
        flow.name,
        lag=flow.lag,
        counts=counts,
        reads=flow.reads,
        topics=flow.topics,
        tables=flow.tables,
        groups=flow.groups,
        broken=dict(flow.broken),
        watermark=flow.watermark or "",
    )


def is_alive(process: int) -> bool:
    """True if a process of this machine is running."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
