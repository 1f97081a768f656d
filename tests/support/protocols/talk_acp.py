"""Talk to an agent with generated bindings of the Agent Client Protocol, and print what it does as JSON."""

from __future__ import annotations

import asyncio
import json
import sys

from acp_bindings import Client
from acp_bindings import types as t

from mcp_runtime.errors import RemoteJSONRPCError


class Editor(Client):
    def __init__(self) -> None:
        super().__init__()
        self.updates: list[t.SessionUpdate] = []
        self.paths: list[str] = []

    async def on_session_update(self, params: t.SessionNotification) -> None:
        self.updates.append(params.update)

    async def on_fs_read_text_file(self, params: t.ReadTextFileRequest) -> t.ReadTextFileResponse:
        self.paths.append(params.path)
        return t.ReadTextFileResponse(content="notes")

    async def on_session_request_permission(self, params: t.RequestPermissionRequest) -> t.RequestPermissionResponse:
        selected = t.RequestPermissionOutcomeSelected(option_id=params.options[0].option_id)
        return t.RequestPermissionResponse(outcome=selected)


async def main() -> None:
    files = t.FileSystemCapabilities(read_text_file=True)
    async with Editor().start(*sys.argv[1:]) as editor:
        agent = await editor.initialize(
            t.InitializeRequest(protocol_version=1, client_capabilities=t.ClientCapabilities(fs=files)), timeout=30
        )
        session = await editor.session_new(t.NewSessionRequest(cwd="/home", mcp_servers=[]), timeout=30)
        prompt = t.PromptRequest(session_id=session.session_id, prompt=[t.ContentBlockText(text="hello")])
        response = await editor.session_prompt(prompt, timeout=30)
        try:
            load = t.LoadSessionRequest(session_id=session.session_id, cwd="/home", mcp_servers=[])
            await editor.session_load(load, timeout=30)
            code = 0
        except RemoteJSONRPCError as error:
            code = error.code
        texts = [
            update.content.text
            for update in editor.updates
            if isinstance(update, t.SessionUpdateAgentMessageChunk) and isinstance(update.content, t.ContentBlockText)
        ]
    events = [agent.protocol_version, session.session_id, response.stop_reason, code, texts, editor.paths]
    print(json.dumps(events))


asyncio.run(main())
