"""Errors of a pipeline or a query that its author can fix."""

from __future__ import annotations

import re

_STACK_LINE = re.compile(r"^\s+at |^\s*\.\.\. \d+ more|^JVM stacktrace:|^== SQL")
_CAUSE = re.compile(r"^Caused by: (\S.*)$", re.MULTILINE)
_OURS = re.compile(r"^(?:[\w.]+: )*barnabas\.[\w.]+Error: (\S.*)$", re.MULTILINE)
_PYTHON_STACK = "Traceback (most recent call last):"
MAX_CAUSE = 1_500  # characters: a screen, not a log


class PipelineError(Exception):
    """A sentence that says what to do, followed by the cause as reported."""

    def __init__(self, sentence: str, cause: BaseException | str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.cause = "" if cause is None else cause if isinstance(cause, str) else words_of(cause)

    def __str__(self) -> str:
        return f"{self.sentence}\n{self.cause}" if self.cause else self.sentence


class SourceError(Exception):
    """The topic, the brokers or the records do not match the query."""


class DataLossError(SourceError):
    """Records that the query had to read were deleted."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some data may have been lost: retention may have removed them, or the topic was deleted. "
            "Set the option 'failOnDataLoss' to 'false' to continue with the remaining records."
        )


def own_sentence(error: BaseException) -> str | None:
    """Return the last message of an error of ours in the text of Spark's: the end of a worker's traceback."""
    if isinstance(error, PipelineError):
        return error.sentence
    found = _OURS.findall(str(error))
    return str(found[-1]).strip().rstrip(".") + "." if found else None


def words_of(error: BaseException) -> str:
    """Text of an error without the JVM's stack trace, which names nothing that a pipeline's author wrote, and the last
    of its causes: a write that fails names the store and its answer only there."""
    if isinstance(error, PipelineError):
        return str(error)
    kept: list[str] = []
    lines = str(error).strip().splitlines()
    for line in lines:
        if _STACK_LINE.match(line):
            break
        if _PYTHON_STACK in line:
            kept.append(line.replace(_PYTHON_STACK, "").rstrip())
            break
        kept.append(line.rstrip())
    kept += _end_of_python_stack(lines)
    text = "\n".join(kept)[:MAX_CAUSE].strip()
    causes = _CAUSE.findall(str(error))
    if causes and causes[-1] not in text:
        text = f"{text}\nCaused by: {causes[-1][:MAX_CAUSE]}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _end_of_python_stack(lines: list[str]) -> list[str]:
    """The last line of a Python worker's traceback, which Spark puts into its message."""
    starts = [index for index, line in enumerate(lines) if _PYTHON_STACK in line]
    if not starts:
        return []
    said = [line for line in lines[starts[-1] + 1 :] if line.strip() and not line.startswith((" ", "\t"))]
    return said[:1]
