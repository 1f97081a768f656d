"""The optional packages: without one, the tests that need it are skipped, and say which extra to install."""

from __future__ import annotations

import re
from importlib.util import find_spec
from types import ModuleType
from typing import Final

import pytest

# The import names of optional packages, by the extra that has them.
PACKAGES: Final = {
    "app": ("jsonschema_rs", "uritemplate"),
    "auth": ("cryptography", "filelock", "joserfc"),
    "cli": ("click", "jinja2", "rich"),
    "codegen": ("black", "datamodel_code_generator", "jsonschema", "tree_sitter", "tree_sitter_typescript"),
    "dev": ("anyio", "authlib", "fastapi", "httptools", "hypothesis", "selenium", "uvloop", "websockets", "xdist"),
    "http": ("httpx2", "starlette", "uvicorn"),
    "keyring": ("keyring",),
    "otel": ("opentelemetry",),
    "skills": ("yaml",),
}
# What the message of an error, or the output of a child process in it, says of what is missing.
_HINT: Final = re.compile(r"mcp-generated\[(\w+)\]")
_IMPORT: Final = re.compile(r"No module named '(\w+)")


def missing_extra(error: BaseException | None) -> str | None:
    """Return which extra an error is about, if one of its packages is missing indeed; otherwise None."""
    while error is not None:
        text = str(error)
        packages = {package for extra in _HINT.findall(text) for package in PACKAGES.get(extra, ())}
        packages |= {*_IMPORT.findall(text)}
        for extra, names in PACKAGES.items():
            for package in names:
                if package in packages and find_spec(package) is None:
                    return f"needs the extra {extra}: {package} is not installed"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


class SkippedModule(pytest.Module):
    """A module of tests that is skipped if it cannot be imported without an optional package."""

    def _getobj(self) -> ModuleType:
        try:
            return super()._getobj()  # type: ignore[no-any-return]
        except Exception as error:
            if (reason := missing_extra(error)) is None:
                raise
            pytest.skip(f"{self.path.name} {reason}", allow_module_level=True)
