"""Sampling with models of OpenAI, and of servers with the same API: chat completions."""

from __future__ import annotations

import json
from typing import Any

from .conversation import STOP_REASONS, Blocks, SamplingHandler, result_text, tool_choice


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
        results = [
            {"role": "tool", "tool_call_id": block["toolUseId"], "content": result_text(block)}
            for block in blocks
            if block["type"] == "tool_result"
        ]
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
