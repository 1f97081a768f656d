"""Providers: sources of tools, resources and prompts of an app that may differ for each request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_module

if TYPE_CHECKING:
    from .file_system import FileSystemProvider as FileSystemProvider
    from .file_system import prompt as prompt
    from .file_system import resource as resource
    from .provider import Provider as Provider

__all__ = [
    "FileSystemProvider",
    "Provider",
    "prompt",
    "resource",
]

_MODULES = {
    "FileSystemProvider": "file_system",
    "Provider": "provider",
    "prompt": "file_system",
    "resource": "file_system",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
