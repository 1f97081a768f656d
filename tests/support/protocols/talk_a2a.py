"""Talk to an agent with generated bindings of the Agent2Agent Protocol, and print what it does as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import aclosing

from a2a_bindings import Client
from a2a_bindings import types as t

from mcp_generated import HTTPOptions
from mcp_runtime.errors import InvalidResponseError, RemoteJSONRPCError


def sent(text: str, task: t.Task | None = None, *, blocking: bool = True) -> t.MessageSendParams:
    task_id, context_id = (None, None) if task is None else (task.id, task.context_id)
    message = t.Message(
        kind="message",
        message_id=f"message-{text}",
        role="user",
        parts=[t.TextPart(kind="text", text=text)],
        task_id=task_id,
        context_id=context_id,
    )
    return t.MessageSendParams(message=message, configuration=t.MessageSendConfiguration(blocking=blocking))


def words(artifacts: list[t.Artifact] | None) -> list[str]:
    return [part.text for artifact in artifacts or () for part in artifact.parts if isinstance(part, t.TextPart)]


async def main(url: str) -> None:
    events: list[object] = []
    async with Client().connect(url, http=HTTPOptions(timeout=20)) as client:
        task = await client.message_send(sent("one two"), timeout=30)
        assert isinstance(task, t.Task)
        events.append([task.status.state, words(task.artifacts)])
        streamed: list[str] = []
        async for event in client.message_stream(sent("three four"), timeout=30):
            streamed += [event.kind, *(words([event.artifact]) if isinstance(event, t.TaskArtifactUpdateEvent) else ())]
        events.append(streamed)
        events.append((await client.tasks_get(t.TaskQueryParams(id=task.id), timeout=30)).status.state)
        async with aclosing(client.message_stream(sent("five wait"), timeout=30)) as stream:
            begun = await anext(stream)
            assert isinstance(begun, t.Task)
            async for event in stream:
                if isinstance(event, t.TaskStatusUpdateEvent):
                    break
        async with aclosing(client.tasks_resubscribe(t.TaskIdParams(id=begun.id), timeout=30)) as stream:
            first = await anext(stream)
            cancelled = await client.tasks_cancel(t.TaskIdParams(id=begun.id), timeout=30)
            _ = [event async for event in stream]  # It ends.
        events.append([cancelled.status.state, first.kind])
        try:
            await client.tasks_get(t.TaskQueryParams(id="nothing"), timeout=30)
        except RemoteJSONRPCError as error:
            events.append([error.code, error.message])
    async with Client().connect(url, http=HTTPOptions(max_bytes=200)) as client:
        try:
            await client.message_send(sent("long " * 20), timeout=30)
        except InvalidResponseError as error:
            events.append("longer than 200 bytes" in str(error))
    print(json.dumps(events))


asyncio.run(main(sys.argv[1]))
