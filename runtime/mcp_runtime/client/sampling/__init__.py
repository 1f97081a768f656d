"""Handlers of sampling requests that call the models of a provider, for clients."""

from typing import TYPE_CHECKING

from ..._lazy import lazy_module

if TYPE_CHECKING:
    from .anthropic_messages import AnthropicSamplingHandler as AnthropicSamplingHandler
    from .gemini_contents import GoogleGenaiSamplingHandler as GoogleGenaiSamplingHandler
    from .openai_chat import OpenAISamplingHandler as OpenAISamplingHandler

__all__ = ["AnthropicSamplingHandler", "GoogleGenaiSamplingHandler", "OpenAISamplingHandler"]

_MODULES = {
    "AnthropicSamplingHandler": "anthropic_messages",
    "GoogleGenaiSamplingHandler": "gemini_contents",
    "OpenAISamplingHandler": "openai_chat",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
