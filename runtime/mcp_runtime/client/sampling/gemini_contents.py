"""Sampling with models of Google: the Gen AI API, whose client takes JSON in the place of its types."""

from __future__ import annotations

from typing import Any, Final

from .conversation import STOP_REASONS, Blocks, SamplingHandler, result_text, tool_choice

_CHOICES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}


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
            {"role": "model" if role == "assistant" else "user", "parts": [self._part(item, names) for item in items]}
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
            "tool_config": {"function_calling_config": {"mode": _CHOICES[choice]}} if functions and choice else None,
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

    def _part(self, block: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
        match block:
            case {"type": "text", "text": text}:
                return {"text": text}
            case {"type": "image" | "audio", "data": data, "mimeType": mime_type}:
                return {"inline_data": {"mime_type": mime_type, "data": data}}
            case {"type": "tool_use"}:
                return {"function_call": {"id": block["id"], "name": block["name"], "args": block["input"]}}
            case {"type": "tool_result", "toolUseId": id}:
                key = "error" if block.get("isError") else "result"
                return {
                    "function_response": {"id": id, "name": names.get(id, ""), "response": {key: result_text(block)}}
                }
            case _:
                raise self.refuse(block)


def _declaration(tool: dict[str, Any]) -> dict[str, Any]:
    fields = {
        "name": tool["name"],
        "description": tool.get("description"),
        "parameters_json_schema": tool["inputSchema"],
    }
    return {name: value for name, value in fields.items() if value is not None}
