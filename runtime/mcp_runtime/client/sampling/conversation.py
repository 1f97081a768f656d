"""What the sampling handlers share: the messages of a request as JSON, the choice of the model, and the result."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from ...errors import JSONRPCError, LocalError
from ...protocol.jsonrpc import INVALID_PARAMS
from ...protocol.models import is_list
from ..model_preferences import choose_model

Blocks = list[dict[str, Any]]


class SamplingHandler:
    """The base of the handlers of one provider.

    Call it in `on_create_message`, or assign it: `on_create_message = staticmethod(handler)`.
    """

    provider: str
    package: str
    """The package to install, with its class as `module:Name`."""

    def __init__(self, default_model: str, client: Any = None, *, models: Sequence[str] = ()) -> None:
        """Create a handler. Raises LocalError without `client` if the provider's package is not installed.

        Args:
            default_model: The model for requests whose hints match no other.
            client: The asynchronous client of the provider's package; by default one that finds its key itself.
            models: Further models that servers may choose by the hints of their requests.
        """
        self.default_model = default_model
        self.models = [default_model, *models]
        self.client: Any = self._default_client() if client is None else client

    async def __call__(self, ctx: Any, params: Any) -> Any:
        """Return the CreateMessageResult of a sampling request.

        Raises JSONRPCError for content that the provider does not accept, and what the provider's client raises.
        """
        fields: dict[str, Any] = params.model_dump()
        model = choose_model(params.model_preferences, self.models)
        messages = [(message["role"], blocks_of(message["content"])) for message in fields["messages"]]
        model, blocks, reason = await self.create(model, messages, fields)
        types = sys.modules[type(params).__module__]
        content: Any = blocks[0] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks
        if not blocks:
            content = {"type": "text", "text": ""}
        result = {"role": "assistant", "content": content, "model": model, "stopReason": reason}
        return types.CreateMessageResult.model_validate({name: v for name, v in result.items() if v is not None})

    @abstractmethod
    async def create(
        self, model: str, messages: list[tuple[str, Blocks]], fields: dict[str, Any]
    ) -> tuple[str, Blocks, str | None]:
        """Return the model's name, the content blocks of its message, and the reason why it stopped."""

    def _default_client(self) -> Any:
        module, _, name = self.package.partition(":")
        try:
            return getattr(import_module(module), name)()
        except ImportError:
            install = module.replace(".", "-")
            raise LocalError(
                f"{type(self).__name__}() needs the package {install!r}: pip install {install}, or pass client=…"
            ) from None

    def refuse(self, block: dict[str, Any]) -> JSONRPCError:
        """Return the error for a content block that the provider does not accept."""
        return JSONRPCError(
            INVALID_PARAMS, f"models of {self.provider} do not accept content of type {block['type']!r}"
        )


def blocks_of(content: Any) -> Blocks:
    """Return the content blocks of a message."""
    return [dict(block) for block in content] if is_list(content) else [dict(content)]


def result_text(block: dict[str, Any]) -> str:
    """Return the text of the result of a tool."""
    texts = [item["text"] for item in block.get("content") or () if item.get("type") == "text"]
    return "\n".join(texts)


def tool_choice(fields: dict[str, Any]) -> str | None:
    """Return how the model chooses tools: "auto", "required" or "none"; None if the request does not say it."""
    choice: Any = fields.get("toolChoice")
    mode: str | None = None if choice is None else choice.get("mode")
    return mode


STOP_REASONS: Final = {
    "stop": "endTurn", "end_turn": "endTurn", "STOP": "endTurn",
    "length": "maxTokens", "max_tokens": "maxTokens", "MAX_TOKENS": "maxTokens",
    "tool_calls": "toolUse", "tool_use": "toolUse",
    "stop_sequence": "stopSequence",
}  # fmt: skip
"""The stop reasons of MCP by those of the providers; others are passed on as they are."""
