"""What Spark has noted of a stream in its checkpoint."""

from __future__ import annotations

from barnabas.pipelines.hadoop_files import HadoopFolder
from barnabas.pipelines.running.progress import offsets_reached
from barnabas.types import TopicPartition

HEADER = 2  # lines of an entry before those of its sources: the version, and what holds for all of them


def offsets_noted(checkpoint: HadoopFolder) -> dict[TopicPartition, int]:
    """The end of the last micro-batch that is done; nothing before the first, or where no topic is read."""
    done = [int(name) for name in checkpoint.below("commits").names() if name.isdigit()]
    if not done:
        return {}
    entry = checkpoint.below("offsets").read_text(str(max(done))) or ""
    return offsets_reached({"sources": [{"endOffset": line} for line in entry.splitlines()[HEADER:]]})
