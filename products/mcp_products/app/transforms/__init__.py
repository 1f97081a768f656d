"""Transforms: what changes the tools, resources and prompts that the clients of an app see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
    from .tool_search import BM25SearchTransform as BM25SearchTransform
    from .tool_search import RegexSearchTransform as RegexSearchTransform
    from .transform import Namespace as Namespace
    from .transform import PromptsAsTools as PromptsAsTools
    from .transform import ResourcesAsTools as ResourcesAsTools
    from .transform import Transform as Transform
    from .transform import VersionFilter as VersionFilter

__getattr__, __dir__ = lazy_members(
    __name__,
    {
        "tool_search": ("BM25SearchTransform", "RegexSearchTransform"),
        "transform": ("Namespace", "PromptsAsTools", "ResourcesAsTools", "Transform", "VersionFilter"),
    },
)
