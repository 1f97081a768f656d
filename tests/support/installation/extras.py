"""The optional packages: without one, the tests that need it are skipped, and say which extra to install."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

import pytest

from support.project import TESTS
from support.systems import reason_to_skip

# The import names of optional packages, by the extra that has them.
PACKAGES: Final = {
    "app": ("jsonschema_rs", "uritemplate"),
    "auth": ("cryptography", "filelock", "joserfc"),
    "cli": ("click", "jinja2", "rich"),
    "code": ("mcp_products.code_mode", "pydantic_monty"),
    "compat": ("anyio",),
    "codegen": (
        "mcp_codegen",
        "datamodel_code_generator",
        "jsonschema",
        "tree_sitter",
        "tree_sitter_typescript",
    ),
    "dev": (
        *("anyio", "authlib", "fastapi", "hypothesis", "opentelemetry.sdk", "selenium", "trio"),
        *("uvloop", "websockets", "xdist"),
    ),
    "http": ("httptools", "httpx2", "starlette", "uvicorn"),
    "keyring": ("keyring",),
    "openapi": ("mcp_products.openapi.apps", "httpx2", "yaml"),
    "otel": ("opentelemetry",),
    "proxy": ("mcp_products.relay",),
    "skills": ("mcp_products.skills", "yaml"),
    "views": ("mcp_generated.extensions.apps.client", "mcp_products.views.view"),
}
# Where whole modules are about what an extra has. In the other modules of these folders, which are about what the base
# installation has, each test that needs an extra is skipped by itself.
_ABOUT_BASE: Final = ("app/", "examples/", "relay/proxy/")
_ABOUT_EXTRAS: Final = (
    *("relay/proxy/test_refusals.py", "relay/proxy/test_shared_watches.py"),
    *("app/access/", "app/serving/", "app/test_own_methods.py", "examples/test_protected_example.py"),
    *("app/composition/test_authorization_middleware.py", "app/versions/test_scopes_of_versions.py"),
    *("examples/test_web_examples.py", "examples/deployment/"),
)
# What the message of an error, or the output of a child process in it, says of what is missing.
_HINT: Final = re.compile(r"mcp-generated\[([\w,]+)\]")
_IMPORT: Final = re.compile(r"No module named '([\w.]+)")


def missing_extra(error: BaseException | None) -> str | None:
    """Return which extra an error is about, if one of its packages is missing indeed; otherwise None."""
    while error is not None:
        text = str(error)
        extras = {extra for names in _HINT.findall(text) for extra in names.split(",")}
        packages = {package for extra in extras for package in PACKAGES.get(extra, ())}
        packages |= {part for name in _IMPORT.findall(text) for part in (name, name.partition(".")[0])}
        for extra, names in PACKAGES.items():
            for package in names:
                if package in packages and not is_installed(package):
                    return f"needs the extra {extra}: {package} is not installed"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


def is_installed(package: str) -> bool:
    """Return True if a package, or a package in one, can be imported."""
    parent = package.rpartition(".")[0]
    return (not parent or is_installed(parent)) and find_spec(package) is not None


class optional:
    """A package that is imported when it is used: without it, the tests that use it are skipped, and no others."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


def needs(extra: str) -> pytest.MarkDecorator:
    """Return a marker for tests that are skipped where an extra is not installed."""
    missing = [package for package in PACKAGES[extra] if not is_installed(package)]
    reason = f"needs the extra {extra}: {', '.join(missing)} not installed"
    return pytest.mark.skipif(bool(missing), reason=reason)


class SkippedModule(pytest.Module):
    """A module of tests that is skipped if it cannot be imported without an optional package or another system."""

    def _getobj(self) -> ModuleType:
        if (reason := reason_to_skip(self.nodeid)) is not None:
            pytest.skip(reason, allow_module_level=True)
        try:
            return super()._getobj()  # type: ignore[no-any-return]
        except Exception as error:
            place = self.path.relative_to(TESTS).as_posix()
            is_base = place.startswith(_ABOUT_BASE) and not place.startswith(_ABOUT_EXTRAS)
            if is_base or (reason := missing_extra(error)) is None:
                raise
            pytest.skip(f"{place} {reason}", allow_module_level=True)
