"""Names of the official SDK and of FastMCP that have no counterpart, and originals that must not be installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import GenericAlias
from typing import Any, Final

# Distributions whose files would be mixed with ours, by the package that they have.
_ORIGINALS: Final = {
    "mcp": ("mcp", "mcp-types"),
    "mcp_types": ("mcp", "mcp-types"),
    "fastmcp": ("fastmcp", "fastmcp-slim"),
}
MARK: Final = "generated"
"""What the local part of our versions begins with: `2.3.0+generated.0.2.0`."""


def absent(name: str, remedy: str = "") -> Any:
    """Return a class that raises NotImplementedError where it is called: for a name without a counterpart.

    `remedy` is what to write instead. That of an error is one, which nothing raises, so that programs can catch it.
    """

    def refuse(cls: object, *arguments: object, **keywords: object) -> None:
        told = remedy or "docs/frameworks.md lists what has one"
        raise NotImplementedError(f"{name} has no counterpart in mcp-generated; {told}")

    members: dict[str, Any] = {
        "__new__": refuse,  # A subclass of a program has an `__init__` of its own.
        "__module__": name.rpartition(".")[0],
        "__class_getitem__": classmethod(GenericAlias),
    }
    bases = (Exception,) if name.endswith("Error") else ()
    return type(name.rpartition(".")[2], bases, members)


def modules_of(package: str, names: Sequence[str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports its modules when they are first used."""

    def get(name: str) -> Any:
        if name in names:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def refuse_originals(package: str) -> None:
    """Raise ImportError if a distribution of the original package is installed besides ours."""
    for distribution in _ORIGINALS[package]:
        try:
            found = version(distribution)
        except PackageNotFoundError:
            continue
        if f"+{MARK}" not in found:
            raise ImportError(
                f"{package}: {distribution} {found} is installed besides the names of mcp-generated, and their files"
                f" are mixed. Uninstall both, and install one: pip uninstall {distribution}"
            )
