"""Requirements of Spark's Python workers."""

import subprocess
import sys

SET_ASIDE = """
import gc, numba, pandas
from barnabas.spark.worker_process import set_modules_aside
for _ in range(4):
    set_modules_aside()
    print(gc.get_freeze_count(), len(gc.get_objects()))
"""


def test_second_task_removes_imported_modules_and_later_ones_do_not() -> None:
    command = [sys.executable, "-c", SET_ASIDE]
    output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    aside, left = zip(*(map(int, line.split()) for line in output.splitlines()), strict=True)
    assert aside[0] == 0
    assert aside[1] > 50_000
    assert aside[1:] == (aside[1],) * 3
    assert max(left[1:]) < left[0] / 50
