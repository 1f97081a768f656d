"""An agent on the official Python SDK of ACP: it reads a file, requests a permission, and echoes."""

from __future__ import annotations

import asyncio
from typing import Any

from acp import PROTOCOL_VERSION, InitializeResponse, NewSessionResponse, PromptResponse, run_agent
from acp import update_agent_message_text as text_update
from acp.schema import AgentCapabilities, PermissionOption, ToolCallUpdate


class EchoAgent:
    def on_connect(self, connection: Any) -> None:
        self.connection = connection

    async def initialize(self, **_: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=PROTOCOL_VERSION, agent_capabilities=AgentCapabilities())

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id=f"session in {cwd}")

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> PromptResponse:
        file = await self.connection.read_text_file(session_id=session_id, path="/notes.txt", line=1)
        answer = await self.connection.request_permission(
            session_id=session_id,
            tool_call=ToolCallUpdate(tool_call_id="1", title="write"),
            options=[PermissionOption(option_id="yes", name="Allow", kind="allow_once")],
        )
        for block in prompt:
            text = f"{block.text}, {file.content}, {answer.outcome.option_id}"
            await self.connection.session_update(session_id=session_id, update=text_update(text))
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, **_: Any) -> None:
        pass


asyncio.run(run_agent(EchoAgent()))
