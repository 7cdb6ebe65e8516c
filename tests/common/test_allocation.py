"""Memory retention of the allocator, measured by page faults."""

import subprocess
import sys

import pytest

BATCHES, BLOCKS, BLOCK_PAGES = 20, 4, 1024  # blocks of a batch: fetched data and columns
ONE_BATCH = BLOCKS * BLOCK_PAGES

FAULTS_OF_BLOCKS = f"""
import resource, sys
from barnabas.common.allocation import keep_freed_memory
if sys.argv[1] == "kept" and not keep_freed_memory():
    sys.exit("no glibc")
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({BATCHES}):
    blocks = [bytearray({BLOCK_PAGES} * 4096) for _ in range({BLOCKS})]
    for block in blocks:
        block[::4096] = bytes({BLOCK_PAGES})
    del blocks, block
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    command = [sys.executable, "-c", FAULTS_OF_BLOCKS, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "no glibc" in done.stderr:
        pytest.skip("this C library has no mallopt")
    return int(done.stdout)


def test_memory_that_was_freed_serves_the_next_batch_without_page_faults() -> None:
    assert faults("kept") < 2 * ONE_BATCH


def test_without_it_every_batch_faults_its_memory_again() -> None:
    assert faults("plain") > 5 * ONE_BATCH
