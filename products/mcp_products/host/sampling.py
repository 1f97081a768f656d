"""What the sampling handlers share: the messages of a request as JSON, the choice of the model, and the result."""

from __future__ import annotations

import json
import logging
import sys
from abc import abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from pydantic import BaseModel

from mcp_runtime.errors import JSONRPCError, LocalError
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS
from mcp_runtime.protocol.models import is_list

from .model_content import anthropic_result, blocks_of_result, gemini_result, openai_result

_log: Final = logging.getLogger("mcp_runtime.host.sampling")

# Choose a model for the model preferences of a sampling request.


def choose_model(preferences: Any, models: Sequence[str]) -> str:
    """Return the first model whose name contains a hint; hints are tried in order, upper and lower case are the same.

    Return the first model if no hint matches. See
    https://modelcontextprotocol.io/specification/draft/client/sampling#model-preferences

    Args:
        preferences: The `model_preferences` of the request; None for no preferences.
        models: The names of the available models, best first.

    Raises ValueError if `models` is empty.
    """
    if not models:
        raise ValueError("there is no model to choose: pass at least one name")
    for hint in getattr(preferences, "hints", None) or ():
        name = (hint.name or "").lower()
        for model in models:
            if name and name in model.lower():
                return model
    return models[0]


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

    async def __call__(self, *arguments: Any) -> Any:
        """Return the CreateMessageResult of a sampling request: of its params, which `Client(sampling=…)` passes before
        the context, and `on_create_message` gets behind it.

        Raises JSONRPCError for content that the provider does not accept, and what the provider's client raises.
        """
        params: Any = next(argument for argument in arguments if isinstance(argument, BaseModel))
        fields: dict[str, Any] = params.model_dump(by_alias=True, exclude_none=True)
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
        except ModuleNotFoundError:
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


def result_blocks(block: dict[str, Any]) -> Blocks:
    """Return the blocks of the result of a tool, structured content included."""
    structured = block.get("structuredContent")
    return blocks_of_result(block.get("content") or [], structured, "structuredContent" in block)


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


# Sampling with models of Anthropic: the Messages API.

_CHOICES: Final = {"auto": {"type": "auto"}, "required": {"type": "any"}, "none": {"type": "none"}}


class AnthropicSamplingHandler(SamplingHandler):
    """Answers sampling requests with `AsyncAnthropic().messages.create`."""

    provider = "Anthropic"
    package = "anthropic:AsyncAnthropic"

    async def create(
        self, model: str, messages: list[tuple[str, Blocks]], fields: dict[str, Any]
    ) -> tuple[str, Blocks, str | None]:
        """Return the model's name, the content blocks of its message, and the reason why it stopped."""
        tools = [_tool(tool) for tool in fields.get("tools") or ()]
        choice = tool_choice(fields)
        settings = {
            "system": fields.get("systemPrompt"),
            "temperature": fields.get("temperature"),
            "stop_sequences": fields.get("stopSequences"),
            "tools": tools or None,
            "tool_choice": _CHOICES[choice] if tools and choice else None,
        }
        response = await self.client.messages.create(
            model=model,
            max_tokens=fields["maxTokens"],
            messages=[
                {"role": role, "content": [self._block(role, item) for item in items]} for role, items in messages
            ],
            **{name: value for name, value in settings.items() if value is not None},
        )
        content: Blocks = []
        for block in response.content:
            if block.type == "text":
                content.append({"type": "text", "text": block.text})
            elif block.type == "tool_use":
                content.append({"type": "tool_use", "id": block.id, "name": block.name, "input": dict(block.input)})
            else:
                _log.warning("a block of type %r of the model has no form in MCP, and is left out", block.type)
        return response.model, content, STOP_REASONS.get(response.stop_reason, response.stop_reason)

    def _block(self, role: str, block: dict[str, Any]) -> dict[str, Any]:
        match block:
            case {"type": "text", "text": text}:
                return {"type": "text", "text": text}
            case {"type": "image", "data": data, "mimeType": mime_type} if role == "user":
                return {"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": data}}
            case {"type": "tool_use"}:
                return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["input"]}
            case {"type": "tool_result"}:
                return anthropic_result(result_blocks(block), block.get("isError") is True, block["toolUseId"])
            case _:
                raise self.refuse(block)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    fields = {"name": tool["name"], "description": tool.get("description"), "input_schema": tool["inputSchema"]}
    return {name: value for name, value in fields.items() if value is not None}


# Sampling with models of Google: the Gen AI API, whose client takes JSON in the place of its types.

_GEMINI_CONTENTS_CHOICES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}


class GoogleGenaiSamplingHandler(SamplingHandler):
    """Answers sampling requests with `google.genai.Client().aio.models.generate_content`."""

    provider = "Google"
    package = "google.genai:Client"

    async def create(
        self, model: str, messages: list[tuple[str, Blocks]], fields: dict[str, Any]
    ) -> tuple[str, Blocks, str | None]:
        """Return the model's name, the content blocks of its message, and the reason why it stopped."""
        names = {
            block["id"]: block["name"] for _, blocks in messages for block in blocks if block["type"] == "tool_use"
        }
        contents = [
            {
                "role": "model" if role == "assistant" else "user",
                "parts": [part for item in items for part in self._parts(item, names)],
            }
            for role, items in messages
        ]
        functions = [_declaration(tool) for tool in fields.get("tools") or ()]
        choice = tool_choice(fields)
        config = {
            "system_instruction": fields.get("systemPrompt"),
            "temperature": fields.get("temperature"),
            "max_output_tokens": fields["maxTokens"],
            "stop_sequences": fields.get("stopSequences"),
            "tools": [{"function_declarations": functions}] if functions else None,
            "tool_config": (
                {"function_calling_config": {"mode": _GEMINI_CONTENTS_CHOICES[choice]}}
                if functions and choice
                else None
            ),
        }
        present = {name: value for name, value in config.items() if value is not None}
        response = await self.client.aio.models.generate_content(model=model, contents=contents, config=present)
        candidate = response.candidates[0]
        content: Blocks = []
        for number, part in enumerate((candidate.content and candidate.content.parts) or ()):
            if part.function_call is not None:
                call = part.function_call
                id = call.id or f"{call.name}-{number}"  # The API does not always give one.
                content.append({"type": "tool_use", "id": id, "name": call.name, "input": dict(call.args or {})})
            elif part.text and not getattr(part, "thought", False):
                content.append({"type": "text", "text": part.text})
        if any(block["type"] == "tool_use" for block in content):
            return model, content, "toolUse"
        reason = candidate.finish_reason and str(getattr(candidate.finish_reason, "value", candidate.finish_reason))
        return model, content, STOP_REASONS.get(reason or "", reason)

    def _parts(self, block: dict[str, Any], names: dict[str, str]) -> Blocks:
        match block:
            case {"type": "text", "text": text}:
                return [{"text": text}]
            case {"type": "image" | "audio", "data": data, "mimeType": mime_type}:
                return [{"inline_data": {"mime_type": mime_type, "data": data}}]
            case {"type": "tool_use"}:
                return [{"function_call": {"id": block["id"], "name": block["name"], "args": block["input"]}}]
            case {"type": "tool_result", "toolUseId": id}:
                failed, value = block.get("isError") is True, block.get("structuredContent")
                return gemini_result(result_blocks(block), value, failed, names.get(id, ""), id)
            case _:
                raise self.refuse(block)


def _declaration(tool: dict[str, Any]) -> dict[str, Any]:
    fields = {
        "name": tool["name"],
        "description": tool.get("description"),
        "parameters_json_schema": tool["inputSchema"],
    }
    return {name: value for name, value in fields.items() if value is not None}


# Sampling with models of OpenAI, and of servers with the same API: chat completions.


class OpenAISamplingHandler(SamplingHandler):
    """Answers sampling requests with `AsyncOpenAI().chat.completions.create`."""

    provider = "OpenAI"
    package = "openai:AsyncOpenAI"

    async def create(
        self, model: str, messages: list[tuple[str, Blocks]], fields: dict[str, Any]
    ) -> tuple[str, Blocks, str | None]:
        """Return the model's name, the content blocks of its message, and the reason why it stopped."""
        system = fields.get("systemPrompt")
        chat: list[Any] = [] if system is None else [{"role": "system", "content": system}]
        for role, blocks in messages:
            chat += self._messages(role, blocks)
        tools = [_function(tool) for tool in fields.get("tools") or ()]
        settings = {
            "max_completion_tokens": fields["maxTokens"],
            "temperature": fields.get("temperature"),
            "stop": fields.get("stopSequences"),
            "tools": tools or None,
            "tool_choice": tool_choice(fields) if tools else None,
        }
        present = {name: value for name, value in settings.items() if value is not None}
        response = await self.client.chat.completions.create(model=model, messages=chat, **present)
        choice = response.choices[0]
        content: Blocks = [{"type": "text", "text": choice.message.content}] if choice.message.content else []
        for call in choice.message.tool_calls or ():
            arguments = json.loads(call.function.arguments or "{}")
            content.append({"type": "tool_use", "id": call.id, "name": call.function.name, "input": arguments})
        reason = choice.finish_reason
        return response.model, content, STOP_REASONS.get(reason, reason)

    def _messages(self, role: str, blocks: Blocks) -> list[dict[str, Any]]:
        given = [
            openai_result(result_blocks(block), block.get("isError") is True, block["toolUseId"], "chat")
            for block in blocks
            if block["type"] == "tool_result"
        ]
        # All results stand behind the calls, before a message of the user with what they have beside text.
        results = [messages[0] for messages in given] + [message for messages in given for message in messages[1:]]
        calls = [
            {
                "id": block["id"],
                "type": "function",
                "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
            }
            for block in blocks
            if block["type"] == "tool_use"
        ]
        parts = [self._part(role, block) for block in blocks if block["type"] not in ("tool_use", "tool_result")]
        if not parts and not calls:
            return results
        content: Any = "\n".join(part["text"] for part in parts) if all("text" in part for part in parts) else parts
        message: dict[str, Any] = {"role": role, "content": content or None}
        return [*results, {**message, "tool_calls": calls} if calls else message]

    def _part(self, role: str, block: dict[str, Any]) -> dict[str, Any]:
        match block:
            case {"type": "text", "text": text}:
                return {"type": "text", "text": text}
            case {"type": "image", "data": data, "mimeType": mime_type} if role == "user":
                return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}
            case {"type": "audio", "data": data, "mimeType": "audio/wav" | "audio/x-wav"} if role == "user":
                return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
            case {"type": "audio", "data": data, "mimeType": "audio/mpeg" | "audio/mp3"} if role == "user":
                return {"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}}
            case _:
                raise self.refuse(block)


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "description": tool.get("description"), "parameters": tool["inputSchema"]}
    return {"type": "function", "function": {name: value for name, value in function.items() if value is not None}}
