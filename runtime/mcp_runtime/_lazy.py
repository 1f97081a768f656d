"""Names of a package and the modules that hold them go in, a module `__getattr__` that loads on first use comes out."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType


def lazy_module(
    package: str, modules: tuple[str, ...], names: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose submodules are loaded when they are asked for (PEP 562)."""

    def get(name: str) -> object:
        if name in modules:
            return _load(f"{package}.{name}")
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(_load(f"{package}.{names[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names_known() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules, *names})

    return get, names_known


def _load(module: str) -> ModuleType:
    """Import a module and all that it needs, without a search for garbage in between: classes and functions are none,
    and to look at them again and again takes a twentieth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if collects:
            gc.enable()
