"""A model behind Anthropic's Messages API, by HTTP alone.

API: https://docs.claude.com/en/api/messages
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import httpx2
from model import Call, Message, Question, Reply, Results, Tool

MAX_TOKENS: Final = 1000
TIMEOUT_SECONDS: Final = 120.0


class Claude:
    """The model. `ANTHROPIC_MODEL` and `ANTHROPIC_BASE_URL` replace the defaults."""

    def __init__(self, key: str, environment: Mapping[str, str] = os.environ) -> None:
        self._key = key
        self._model = environment.get("ANTHROPIC_MODEL", "claude-sonnet-4-5")
        self._url = environment.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com").rstrip("/") + "/v1/messages"

    async def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Reply:
        """Return the reply of the model. Raises RuntimeError with the API's message, and errors of HTTP."""
        body = {
            "model": self._model,
            "max_tokens": MAX_TOKENS,
            "messages": [_message(message) for message in messages],
            "tools": [asdict(tool) for tool in tools],
        }
        headers = {"x-api-key": self._key, "anthropic-version": "2023-06-01"}
        async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS) as http:
            response = await http.post(self._url, json=body, headers=headers)
        if response.status_code != 200:
            raise RuntimeError(f"the API answered {response.status_code}: {_error(response)}")
        content = response.json()["content"]
        return Reply(
            "\n".join(block["text"] for block in content if block["type"] == "text"),
            tuple(Call(block["id"], block["name"], block["input"]) for block in content if block["type"] == "tool_use"),
        )


def _error(response: httpx2.Response) -> str:
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return response.reason_phrase


def _message(message: Message) -> dict[str, Any]:
    match message:
        case Question(text):
            return {"role": "user", "content": text}
        case Reply(text, calls):
            blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
            blocks += [
                {"type": "tool_use", "id": call.id, "name": call.tool, "input": call.arguments} for call in calls
            ]
            return {"role": "assistant", "content": blocks or "(no text)"}
        case Results(results):
            blocks = [
                {"type": "tool_result", "tool_use_id": result.id, "content": result.text, "is_error": result.failed}
                for result in results
            ]
            return {"role": "user", "content": blocks}
