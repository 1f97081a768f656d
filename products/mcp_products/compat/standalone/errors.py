"""Exceptions of FastMCP that no product raises under another name."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from mcp_runtime.errors import LocalError, MCPError

from ..forms.errors import ResourceNotFoundError


class ValidationError(MCPError, ValueError):
    """Arguments are missing, or do not fit."""


class ResourceSecurityError(ResourceNotFoundError):
    """A value of a variable of a template is refused; the client is told that there is no such resource."""


@contextmanager
def as_value_errors() -> Generator[None]:
    """Raise ValueError, as FastMCP does, for what a product refuses."""
    try:
        yield
    except LocalError as error:
        raise ValueError(str(error)) from error
