"""An agent for the client of docs/protocols.md; it repeats the text of a prompt in an update."""

from acp import Agent  # type: ignore[import-not-found]
from acp import types as t


class Echo(Agent):  # type: ignore[misc]
    async def on_initialize(self, params: t.InitializeRequest) -> t.InitializeResponse:
        return t.InitializeResponse(protocol_version=params.protocol_version)

    async def on_session_new(self, params: t.NewSessionRequest) -> t.NewSessionResponse:
        return t.NewSessionResponse(session_id=f"session in {params.cwd}")

    async def on_session_prompt(self, params: t.PromptRequest) -> t.PromptResponse:
        update = f"You wrote: {params.prompt[0].text}"
        await self.session_update(t.SessionNotification(session_id=params.session_id, update=update))
        return t.PromptResponse(stop_reason="end_turn")


Echo().run()
