"""Providers: sources of tools, resources and prompts of an app that may differ for each request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
    from .file_system import FileSystemProvider as FileSystemProvider
    from .file_system import prompt as prompt
    from .file_system import resource as resource
    from .provider import Provider as Provider

__getattr__, __dir__ = lazy_members(
    __name__,
    {
        "file_system": ("FileSystemProvider", "prompt", "resource"),
        "provider": ("Provider",),
    },
)
