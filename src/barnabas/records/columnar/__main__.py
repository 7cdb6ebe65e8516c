"""Compile all loops ahead of time."""

from __future__ import annotations

import importlib
import sys
import time

from barnabas.records.columnar import CACHE

MODULES = ("decode_kernels", "line_kernels", "json_kernels", "encode_kernels", "walk_kernels")


def main() -> int:
    began = time.monotonic()
    for module in MODULES:
        # The signatures are explicit: importing compiles, or loads the result of an earlier run.
        importlib.import_module(f"barnabas.records.columnar.{module}")
    sys.stdout.write(f"compiled loops are in {CACHE} ({time.monotonic() - began:.1f} s)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
