"""Handlers of sampling requests that call the models of a provider, for clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
    from .sampling import AnthropicSamplingHandler as AnthropicSamplingHandler
    from .sampling import GoogleGenaiSamplingHandler as GoogleGenaiSamplingHandler
    from .sampling import OpenAISamplingHandler as OpenAISamplingHandler

__getattr__, __dir__ = lazy_members(
    __name__,
    {
        "sampling": ("AnthropicSamplingHandler", "GoogleGenaiSamplingHandler", "OpenAISamplingHandler"),
    },
)
