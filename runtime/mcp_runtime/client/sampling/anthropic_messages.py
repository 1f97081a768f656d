"""Sampling with models of Anthropic: the Messages API."""

from __future__ import annotations

from typing import Any, Final

from .conversation import STOP_REASONS, Blocks, SamplingHandler, result_text, tool_choice

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
                failed = {"is_error": True} if block.get("isError") else {}
                text = result_text(block)
                return {"type": "tool_result", "tool_use_id": block["toolUseId"], "content": text, **failed}
            case _:
                raise self.refuse(block)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    fields = {"name": tool["name"], "description": tool.get("description"), "input_schema": tool["inputSchema"]}
    return {name: value for name, value in fields.items() if value is not None}
