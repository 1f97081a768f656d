"""The table of products: what the core uses if it is there, and names nowhere.

The front door of a generated package fills the table when it is imported, which is before any of its modules is. A
program that uses the core alone has an empty table, and works with the plain default at each seam.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final

_PREFIX: Final = "mcp_"  # Of the packages that a package of its own holds in folders without it.
_HOME: Final = __name__.rpartition(".")[0]  # `mcp_runtime`, or `own.runtime` in a package of its own.

_modules: dict[str, str] = {}  # The module of a product, by the name that the core has for its seam.
_extras: dict[str, tuple[str, str]] = {}  # By module: who needs it, and the extra that installs it.
_found: dict[str, ModuleType | None] = {}


def register(modules: Mapping[str, str], extras: Mapping[str, tuple[str, str]]) -> None:
    """Add products.

    Args:
        modules: The module of each product, by the name of its seam.
        extras: For modules of other distributions who needs one, and the extra that installs it. The longest name that
            fits a module counts.
    """
    _modules.update(modules)
    _extras.update(extras)
    _found.clear()


def find(name: str) -> ModuleType | None:
    """Return the module of a product; None if it is not registered, not installed, or has switched itself off."""
    if name not in _found:
        module = _load(_modules[name]) if name in _modules else None
        _found[name] = module if getattr(module, "ENABLED", True) else None
    return _found[name]


def require(name: str, user: str) -> ModuleType:
    """Return the module of a product. Raises LocalError, which says what `user` needs, if it is not there."""
    module = find(name)
    if module is None:
        needed = _extra_of(_modules.get(name, ""))
        if needed is None:
            raise _local_error(f"{user} needs {name!r}, which is not there: import mcp_generated first")
        raise _local_error(f"{user} needs mcp-generated-extras: pip install 'mcp-generated[{needed[1]}]'")
    return module


def _extra_of(module: str) -> tuple[str, str] | None:
    """Return who needs a module, and the extra that installs it; None if it needs none. The longest name counts."""
    return _extras.get(max((name for name in _extras if is_within(module, name)), key=len, default=""))


def _load(module: str) -> ModuleType | None:
    try:
        return import_module(place_of(module))
    except ModuleNotFoundError as error:
        if error.name is None or not is_within(place_of(module), error.name):
            raise  # The product is there, and what it uses is not.
        return None


def missing(error: ModuleNotFoundError, module: str = "") -> Any:
    """Return the error that says what to install, if a part of ours is missing that `module` is in; else the same."""
    place = module or error.name or ""
    needed = _extra_of(place)
    if needed is None or not is_within(error.name or "", place.split(".")[0]):
        return error
    user, extra = needed
    return _local_error(f"{user} needs mcp-generated-extras: pip install 'mcp-generated[{extra}]'", "NotInstalledError")


def _local_error(text: str, kind: str = "LocalError") -> Any:
    from . import errors  # Imported here: a program that only looks at names needs no errors.

    return getattr(errors, kind)(text)


def is_within(module: str, package: str) -> bool:
    """Return True for a package and for all modules in it."""
    return module == package or module.startswith(f"{package}.")


def is_whole_name(module: str) -> bool:
    """Return True for the full name of a module of this project, False for one that is relative to its package."""
    return module.startswith(_PREFIX)


def place_of(module: str) -> str:
    """Return the full name of a module: a package of its own has the core and the products beside its bindings."""
    own = _HOME.rpartition(".")[0]
    return f"{own}.{module.removeprefix(_PREFIX)}" if own and is_whole_name(module) else module
