"""How the names of `mcp_generated.compat` and of its `types` are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from pydantic import AnyUrl, BaseModel

from ..protocol import jsonrpc
from .mcp_errors import URL_ELICITATION_REQUIRED, ErrorFields


class ErrorData(BaseModel, extra="allow"):
    """The fields of a JSON-RPC error."""

    code: int
    message: str
    data: Any = None


def unwrapped(root: Any) -> Any:
    """Return the message itself, for unions that the last 1.x wraps messages with."""
    return root


class AnyMiddleware:
    """The type of middleware, for annotations: `ServerMiddleware[State]`."""

    def __class_getitem__(cls, parameters: Any) -> Any:
        return Any


# Names of the parts of capabilities, which the schema has inside of `ClientCapabilities` and `ServerCapabilities`.
_CAPABILITIES: Final = {
    **{f"{name}Capability": f"ClientCapabilities{name}" for name in ("Elicitation", "Roots", "Sampling")},
    **{f"{name}Capability": f"ServerCapabilities{name}" for name in ("Prompts", "Resources", "Tools")},
}
_UNIONS: Final = ("ClientNotification", "ClientRequest", "ClientResult", "ServerNotification", "ServerRequest")
_CONSTANTS: Final[dict[str, Any]] = {
    "AnyUrl": AnyUrl,
    "ErrorData": ErrorData,
    "ErrorFields": ErrorFields,
    "INTERNAL_ERROR": jsonrpc.INTERNAL_ERROR,
    "INVALID_PARAMS": jsonrpc.INVALID_PARAMS,
    "INVALID_REQUEST": jsonrpc.INVALID_REQUEST,
    "METHOD_NOT_FOUND": jsonrpc.METHOD_NOT_FOUND,
    "PARSE_ERROR": jsonrpc.PARSE_ERROR,
    "URL_ELICITATION_REQUIRED": URL_ELICITATION_REQUIRED,
    "JSONRPCMessage": Any,
    # Names that programs use in annotations only.
    **dict.fromkeys(("AuthCheck", "CallNext", "EventCallback", "EventId", "HandlerResult", "StreamId"), Any),
    "ServerMiddleware": AnyMiddleware,
    **dict.fromkeys((*_UNIONS, "ServerResult"), unwrapped),
}


def types_of(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a module with the types of all revisions of a generated package.

    A name is the type of the newest revision that has it.
    """
    revisions: dict[str, str] = import_module(package).REVISIONS
    modules = [f"{package}.{name}.types" for name in reversed(revisions.values())]

    def get(name: str) -> Any:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name == "LATEST_PROTOCOL_VERSION":
            return list(revisions)[-1]
        name = _CAPABILITIES.get(name, name)
        if not name.startswith("_"):
            for module in modules:
                if hasattr(types := import_module(module), name):
                    return getattr(types, name)
            if name.isupper():
                for module in modules:
                    constants = import_module(f"{module.removesuffix('.types')}.methods").REVISION.constants
                    if name in constants:
                        return constants[name]
        raise AttributeError(f"there is no type {name!r} in any protocol version")

    def directory() -> list[str]:
        names = {name for module in modules for name in dir(import_module(module)) if name[0].isupper()}
        return sorted(names | _CONSTANTS.keys())

    return get, directory


# Packages of the official SDK that a program uses by their path: `mcp.server.stdio.stdio_server`.
_PACKAGES: Final = frozenset(
    "auth client exceptions fastmcp lowlevel mcpserver server shared stdio streamable_http".split()
)
# The areas of the generated package, and the names of FastMCP that are in none of them.
_AREAS: Final = (
    *("middleware", "dependencies", "providers", "transforms", "auth", "http", "sampling", "tasks", "skills"),
    "testing",
)
_PREFERRED: Final = {"Progress": "dependencies"}
_ALIASES: Final = {
    "CacheHint": "MillisecondCacheHint",
    "SubscriptionBus": "EventBus",
    "AccessToken": "OfficialAccessToken",
    "AuthContext": "AccessRequest",
    "AuthorizationCode": "StoredAuthorizationCode",
    "ClientRequestContext": "RequestContext",
    "ContextManagerLifespan": "lifespan",
    "PromptResult": "GetPromptResult",
    "ResourceResult": "ReadResourceResult",
    "ToolResult": "CallToolResult",
    "EventStore": "StreamEventStore",
    "MCPError": "McpError",
    "Message": "RoleMessage",
    "OAuthClientProvider": "OfficialOAuthClientProvider",
    "OAuthToken": "OfficialOAuthToken",
    "RefreshToken": "StoredRefreshToken",
    "ServerRequestContext": "RequestContext",
    "TokenStorage": "OfficialTokenStorage",
    "TokenVerifier": "OfficialTokenVerifier",
}


class PackagePath:
    """A package of the official SDK: `mcp.server.stdio.stdio_server` is `stdio_server`."""

    def __init__(self, get: Callable[[str], Any]) -> None:
        """Create a path whose names a function returns."""
        self._get = get

    def __getattr__(self, name: str) -> Any:
        return self._get(name)


def names_of(package: str, own: Mapping[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of the `compat` of a generated package.

    A name is one of `mcp_runtime.compat`, of the generated package, or a type.

    Args:
        package: The name of the generated package.
        own: The names that the module defines itself.
    """
    adapters = import_module(__name__.rpartition(".")[0])
    parent: ModuleType = import_module(package)
    bound: dict[str, Any] = {}

    def get(name: str) -> Any:
        name = _ALIASES.get(name, name)
        if name in own:
            return own[name]
        if name == "LocalProvider" and "FastMCP" in own:
            members = {"app_class": own["FastMCP"], "__doc__": adapters.LocalProvider.__doc__}
            bound.setdefault(name, type(name, (adapters.LocalProvider,), members))
            return bound[name]
        if name in adapters.__all__:
            return getattr(adapters, name)
        if name in _PREFERRED:
            return getattr(import_module(f"{package}.{_PREFERRED[name]}"), name)
        if name in parent.__all__:
            return getattr(parent, name)
        for area in _AREAS:
            if not name.startswith("_") and name in (module := import_module(f"{package}.{area}")).__all__:
                return getattr(module, name)
        if name in _PACKAGES:
            return PackagePath(get)
        try:
            return getattr(own["types"], name)
        except AttributeError:
            text = f"{package}.compat has no {name!r}; docs/migration.md has the line to write instead"
            raise AttributeError(text) from None

    def directory() -> list[str]:
        return sorted({*own, *_ALIASES, *adapters.__all__, *parent.__all__})

    return get, directory
