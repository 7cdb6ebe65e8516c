"""Lazy imports of a package's exports, and the opposite: imports of all that will be needed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Container
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

_REEXPORT = re.compile(r"^    from ([\w.]+) import (?:\(\s*)?(\w+) as \2\b", re.MULTILINE)


def lazy_exports(package: str) -> Callable[[str], Any]:
    """Return a module `__getattr__` (PEP 562) that imports an exported name on first use.

    The exports are the imports `from barnabas.log.log import Log as Log` below `if TYPE_CHECKING` in the `__init__` of
    the package: the list that type checkers and editors read. `__all__` is derived from it. Eager imports would load a
    whole package for one name and double the time of a broker start and of `barnabas --help`. Names are not cached, so
    a name that a test replaces in its module is replaced here too.
    """

    imported: dict[str, ModuleType] = {}  # by exported name: an import asks twice for each

    def __getattr__(name: str) -> Any:  # noqa: N807  # the name that PEP 562 gives it
        if name in imported:
            return getattr(imported[name], name)
        exports = _exports(package)
        if name == "__all__":
            return sorted(exports)
        home = exports.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = sys.modules.get(home)
        # import_module waits for another thread that is still executing the module; it takes longer.
        if module is None or getattr(module.__spec__, "_initializing", False):
            module = import_module(home)
        value = getattr(module, name)
        imported[name] = module
        return value

    return __getattr__


def import_below(package: str, left_out: Container[str]) -> None:
    """Import a package with all of its modules, except for those that are left out."""
    module = import_module(package)
    for found in iter_modules(getattr(module, "__path__", ()), f"{package}."):
        if found.name not in left_out and not found.name.endswith(".__main__"):
            import_below(found.name, left_out)


@cache
def _exports(package: str) -> dict[str, str]:
    """Return each exported name with its module. A regular expression takes 25 us, `ast.parse` 150."""
    spec = sys.modules[package].__spec__
    source: bytes = spec.loader.get_data(spec.origin)  # type: ignore[union-attr]  # an installed package has both
    return {name: module for module, name in _REEXPORT.findall(source.decode())}
