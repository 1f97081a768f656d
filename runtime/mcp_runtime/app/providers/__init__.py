"""Providers: sources of tools, resources and prompts of an app that may differ for each request."""

from typing import TYPE_CHECKING

from ..._lazy import lazy_module

if TYPE_CHECKING:
    from .file_system import FileSystemProvider as FileSystemProvider
    from .marks import prompt as prompt
    from .marks import resource as resource
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
    "prompt": "marks",
    "resource": "marks",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
