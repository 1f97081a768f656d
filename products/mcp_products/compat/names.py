"""How the names of `mcp_generated.compat` and of its `types` are found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from types import ModuleType
from typing import Any, Final

from pydantic import AnyUrl, BaseModel

from mcp_runtime._lazy import load

from .forms.errors import ErrorFields, MCPDeprecationWarning
from .forms.form import FORM

# Packages of the official SDK that a program uses by their path: `mcp.server.stdio.stdio_server`.
_PACKAGES: Final = frozenset(
    "auth client exceptions fastmcp lowlevel mcpserver server shared stdio streamable_http".split()
)
# The areas of the generated package, and the names of FastMCP that are in none of them.
_AREAS: Final = "middleware dependencies providers transforms auth http sampling tasks skills testing".split()
_RESULTS: Final = {
    "PromptResult": "GetPromptResult",
    "ResourceResult": "ReadResourceResult",
    "ToolResult": "CallToolResult",
}
_RELEASES: Final = {"fastmcp": "4.2.3", "mcp": "2.3.0", "mcp-types": "2.3.0"}
_RELEASE_OF_V1: Final = "1.30.0"


# Names that programs use in annotations only, and that no module of types has.
_CONSTANTS: Final[dict[str, Any]] = {
    "AnyUrl": AnyUrl,
    "ErrorFields": ErrorFields,
    **dict.fromkeys(("CallNext", "EventCallback", "EventId", "HandlerResult", "StreamId"), Any),
    "MCPDeprecationWarning": MCPDeprecationWarning,
    "TransportStreams": Any,
    "ServerMiddleware": Awaitable,  # It takes a type parameter.
}


def types_of() -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a module with the types in the form of this process."""

    def get(name: str) -> Any:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        for types in (FORM.types, *([FORM.other_types] if name.isupper() else ())):
            if not name.startswith("_") and hasattr(types, name):
                return getattr(types, name)
        raise AttributeError(f"there is no type {name!r} in the form of the official SDK that this process has")

    def directory() -> list[str]:
        return sorted({name for name in dir(FORM.types) if not name.startswith("_")} | _CONSTANTS.keys())

    return get, directory


class PackagePath:
    """A package of the official SDK: `mcp.server.stdio.stdio_server` is `stdio_server`."""

    def __init__(self, get: Callable[[str], Any]) -> None:
        """Create a path whose names a function returns."""
        self._get = get

    def __getattr__(self, name: str) -> Any:
        return self._get(name)


def names_of(
    package: str, own: Mapping[str, Any], official: Mapping[str, tuple[str, str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of the `compat` of a generated package.

    Args:
        package: The name of the generated package, whose names are those of `compat` as well.
        own: The names that the module defines itself. Its `types` have the types.
        official: The module and the name there of each name of the official SDK and of FastMCP.
    """
    parent: ModuleType = import_module(package)

    def get(name: str) -> Any:
        if name in own:
            return own[name]
        if name in official:
            place, other = official[name]
            return getattr(load(place), other)
        if name in parent.__all__:
            return getattr(parent, name)
        for area in _AREAS:
            if not name.startswith("_") and name in (module := import_module(f"{package}.{area}")).__all__:
                return getattr(module, name)
        if name in _PACKAGES:
            return PackagePath(get)
        try:
            return getattr(own["types"], _RESULTS.get(name, name))
        except AttributeError:
            text = f"{package}.compat has no {name!r}; docs/migration.md has the line to write instead"
            raise AttributeError(text) from None

    def directory() -> list[str]:
        return sorted({*own, *official, *_RESULTS, *parent.__all__})

    return get, directory


# Small classes and functions of the official SDK's low level.


@dataclass
class NotificationOptions:
    """Which lists a low-level server declares to change."""

    prompts_changed: bool = False
    resources_changed: bool = False
    tools_changed: bool = False


@dataclass
class InitializationOptions:
    """What a low-level server declares about itself."""

    server_name: str
    server_version: str
    capabilities: BaseModel | Mapping[str, Any]
    title: str | None = None
    description: str | None = None
    instructions: str | None = None
    website_url: str | None = None
    icons: list[Any] | None = None


@dataclass
class ReadResourceContents:
    """What a `read_resource` handler returns for one resource: text or bytes."""

    content: str | bytes
    mime_type: str | None = None
    meta: dict[str, Any] | None = None


def get_display_name(item: Any) -> str:
    """Return the name to show for a tool, resource, template or prompt: its title if it has one, else its name."""
    title = getattr(item, "title", None)
    if title is None and (annotations := getattr(item, "annotations", None)) is not None:
        title = getattr(annotations, "title", None)
    return str(item.name if title is None else title)


def sdk_version(distribution: str) -> str:
    """Return the release of an SDK whose names are here, such as "4.2.3" of `fastmcp`; of others the installed version.

    Raises PackageNotFoundError for another distribution that is not installed.
    """
    name = distribution.lower().replace("_", "-").removesuffix("-slim")
    if name == "mcp" and FORM.is_v1:
        return _RELEASE_OF_V1
    return _RELEASES.get(name) or metadata.version(distribution)
