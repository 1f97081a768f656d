"""Transforms: what changes the tools, resources and prompts that the clients of an app see."""

from typing import TYPE_CHECKING

from ..._lazy import lazy_module

if TYPE_CHECKING:
    from .as_tools import PromptsAsTools as PromptsAsTools
    from .as_tools import ResourcesAsTools as ResourcesAsTools
    from .namespace import Namespace as Namespace
    from .tool_search import BM25SearchTransform as BM25SearchTransform
    from .tool_search import RegexSearchTransform as RegexSearchTransform
    from .transform import Transform as Transform
    from .version_filter import VersionFilter as VersionFilter

__all__ = [
    "BM25SearchTransform",
    "Namespace",
    "PromptsAsTools",
    "RegexSearchTransform",
    "ResourcesAsTools",
    "Transform",
    "VersionFilter",
]

_MODULES = {
    "BM25SearchTransform": "tool_search",
    "Namespace": "namespace",
    "PromptsAsTools": "as_tools",
    "RegexSearchTransform": "tool_search",
    "ResourcesAsTools": "as_tools",
    "Transform": "transform",
    "VersionFilter": "version_filter",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
