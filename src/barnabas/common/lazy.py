"""Lazy imports of a package's exports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module `__getattr__` (PEP 562) that imports an exported name on first use.

    `modules` maps modules to their exported names. Eager imports in `__init__` would load a whole package for one name
    and double the time of a broker start and of `barnabas --help`. Names are not cached, so a name that a test
    replaces in its module is replaced here too.
    """
    homes = {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}

    def __getattr__(name: str) -> Any:  # noqa: N807  # the name that PEP 562 gives it
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = sys.modules.get(home)
        # import_module waits for another thread that is still executing the module; it takes longer.
        if module is None or getattr(module.__spec__, "_initializing", False):
            module = import_module(home)
        return getattr(module, name)

    return __getattr__
