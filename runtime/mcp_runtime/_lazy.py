"""Load the modules of a package when their names are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Final

# The modules of other distributions: who needs one, and the extra that installs it.
_EXTRAS: Final = {
    "mcp_runtime.auth.authorization_server": ("an authorization server", "auth"),
    **dict.fromkeys(("mcp_runtime.auth.client", "mcp_runtime.auth.metadata"), ("an OAuth client", "http,auth")),
    **dict.fromkeys(
        (f"mcp_runtime.auth.resource_server.{module}" for module in ("dpop", "protection", "verifiers")),
        ("a protected server", "http,auth"),
    ),
    "mcp_runtime.transports.http_server.other_servers": ("server= of run()", "hypercorn"),
    "mcp_runtime.session.metrics": ("metrics of OpenTelemetry", "otel"),
    "mcp_runtime.compat": ("mcp_generated.compat", "compat"),
    "mcp_runtime.app.openapi.route_maps": ("an app of an API", "openapi"),
    "mcp_runtime.app.openapi.converted_apps": ("an app of an API", "openapi"),
    "mcp_runtime.gateway": ("a gateway", "cli"),
    "mcp_runtime.extensions.tasks.repeatable": ("a repeatable task", "docket"),
    "mcp_runtime.stores.redis_store": ("a store in Redis", "redis"),
    **dict.fromkeys(
        (f"mcp_runtime.extensions.skills.{module}" for module in ("client", "entry", "provider", "server")),
        ("skills", "skills"),
    ),
    **{
        f"mcp_generated.extensions.{name}.{module}": extra
        for name, extra in (("apps", ("a view", "views")), ("skills", ("skills", "skills")))
        for module in ("client", "methods", "server", "sync", "types")
    },
}
_DISTRIBUTIONS: Final = {"cli": "mcp-generated-codegen"}  # By extra; those of other extras are in mcp-generated-extras.


def lazy_module(
    package: str, *, names: Mapping[str, str], modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package (PEP 562).

    Args:
        package: The name of the package.
        names: For each name the submodule that defines it, relative to the package; with a dot before it, relative to
            the package above.
        modules: Submodules that are attributes of the package themselves.
    """

    def get(name: str) -> object:
        if name in modules:
            return load(f"{package}.{name}")
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        target = names[name]
        base = package.rpartition(".")[0] if target.startswith(".") else f"{package}."
        value = getattr(load(f"{base}{target}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def directory() -> list[str]:
        return sorted({*modules, *names})

    return get, directory


def lazy_members(
    package: str, members: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package with the public names of its submodules.

    `members` has the names by submodule. They are what `from package import *` imports.
    """
    names = {name: module for module, own in members.items() for name in own}
    get, directory = lazy_module(package, names=names)

    def get_or_list(name: str) -> object:
        return directory() if name == "__all__" else get(name)

    return get_or_list, directory


class LazyModule(ModuleType):
    """A module that is imported when one of its attributes is first used, as in an annotation that is evaluated."""

    def __getattr__(self, name: str) -> object:
        return getattr(load(self.__name__), name)


def load(module: str) -> ModuleType:
    """Import a module. Raises LocalError for a module of a distribution that is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise missing(error) from None


def missing(error: ModuleNotFoundError) -> Exception:
    """Return the error that says what to install, if the module is one of ours; else the same error."""
    if error.name not in _EXTRAS:
        return error
    from .errors import LocalError

    user, extra = _EXTRAS[error.name]
    distribution = _DISTRIBUTIONS.get(extra, "mcp-generated-extras")
    return LocalError(f"{user} needs {distribution}: pip install 'mcp-generated[{extra}]'")
