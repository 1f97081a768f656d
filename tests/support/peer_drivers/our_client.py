"""A conversation goes in, and is held with the official everything server by our client, which has every handler; over
stdio, or over HTTP in both its shapes, with one server for all conversations of a process."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from functools import cache
from typing import Any

import pytest
from support.peers import node_peer, started
from support.processes import end_with_session, free_port

from mcp_generated import v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28
from mcp_generated.v2025_11_25 import types as t
from mcp_runtime.bindings.client import negotiate
from mcp_runtime.client.core import ClientContext
from mcp_runtime.errors import JSONRPCError

SERVER = "@modelcontextprotocol/server-everything@2026.8.31"
DEADLINE = 40.0  # Seconds for one conversation.
WAIT = 20.0  # Seconds for one notification.
CAPABILITIES = {
    "roots": {"listChanged": True},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {"requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
}
WHEN = "2026-01-01T00:00:00Z"


class Everything(v2025_11_25.Client):
    """Answers what it is asked, at once or as a task, and keeps what it is told. `action` is what its user does."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.roots = [t.Root(uri="file:///work", name="work")]
        self.action: Any = "accept"
        self.filled: dict[str, Any] = {}
        self.requests: list[Any] = []
        self._tasks: dict[str, Any] = {}
        self._notifications: dict[str, asyncio.Queue[Any]] = {}

    async def until(self, kind: str) -> Any:
        """The params of the next notification of a kind, such as `log`."""
        return await asyncio.wait_for(self.notifications(kind).get(), WAIT)

    def notifications(self, kind: str) -> asyncio.Queue[Any]:
        return self._notifications.setdefault(kind, asyncio.Queue())

    # ---- what it is asked -------------------------------------------------------------------------------------------

    async def on_list_roots(self, ctx: ClientContext, params: t.RequestParams) -> t.ListRootsResult:
        return t.ListRootsResult(roots=self.roots)

    async def on_create_message(
        self, ctx: ClientContext, params: t.CreateMessageRequestParams
    ) -> t.CreateMessageResult | t.CreateTaskResult:
        self.requests.append(params)
        content = t.TextContent(text="I am a parrot.")
        answer = t.CreateMessageResult(role="assistant", content=content, model="parrot", stop_reason="endTurn")
        return answer if params.task is None else self._as_task(answer)

    async def on_elicit(self, ctx: ClientContext, params: t.ElicitRequestParams) -> t.ElicitResult | t.CreateTaskResult:
        self.requests.append(params)
        content = self.filled if self.action == "accept" and params.mode != "url" else None
        answer = t.ElicitResult(action=self.action, content=content)
        return answer if params.task is None else self._as_task(answer)

    def _as_task(self, answer: Any) -> t.CreateTaskResult:
        task = self._task(secrets.token_hex(4), "working")
        self._tasks[task.task_id] = answer
        return t.CreateTaskResult(task=task)

    def _task(self, task_id: str, status: Any) -> t.Task:
        return t.Task(task_id=task_id, status=status, created_at=WHEN, last_updated_at=WHEN, ttl=None)

    async def on_get_task(self, ctx: ClientContext, params: t.GetTaskRequestParams) -> t.GetTaskResult:
        self._answer(params.task_id)
        return t.GetTaskResult(**self._task(params.task_id, "completed").model_dump())

    async def on_get_task_payload(
        self, ctx: ClientContext, params: t.GetTaskPayloadRequestParams
    ) -> t.GetTaskPayloadResult:
        return t.GetTaskPayloadResult.model_validate(self._answer(params.task_id).model_dump())

    def _answer(self, task_id: str) -> Any:
        if task_id not in self._tasks:
            raise JSONRPCError(-32602, "there is no such task")
        return self._tasks[task_id]

    # ---- what it is told --------------------------------------------------------------------------------------------

    async def on_logging_message(self, ctx: ClientContext, params: t.LoggingMessageNotificationParams) -> None:
        self.notifications("log").put_nowait(params)

    async def on_resource_updated(self, ctx: ClientContext, params: t.ResourceUpdatedNotificationParams) -> None:
        self.notifications("updated").put_nowait(params)

    async def on_resource_list_changed(self, ctx: ClientContext, params: t.NotificationParams) -> None:
        self.notifications("resources").put_nowait(params)

    async def on_tool_list_changed(self, ctx: ClientContext, params: t.NotificationParams) -> None:
        self.notifications("tools").put_nowait(params)

    async def on_task_status(self, ctx: ClientContext, params: t.TaskStatusNotificationParams) -> None:
        self.notifications("task").put_nowait(params)


TRANSPORT_PATHS = {"stdio": "", "streamableHttp": "/mcp", "sse": "/sse"}
_transport: ContextVar[str] = ContextVar("transport", default="stdio")


@pytest.fixture(autouse=True, params=TRANSPORT_PATHS)
def transport(request: pytest.FixtureRequest) -> Iterator[str]:
    """How the server is reached; import it into a module to run its tests in all ways."""
    token = _transport.set(request.param)
    yield request.param
    _transport.reset(token)


def program() -> tuple[str, str]:
    """The server, which is installed first if it is not there."""
    name = SERVER.rpartition("@")[0]
    return "node", str(node_peer(SERVER) / "node_modules" / name / "dist" / "index.js")


@cache
def _served(transport_name: str) -> str:
    """The URL of a server of this process, which ends with it."""
    port = free_port()
    server = started([*program(), transport_name], {**os.environ, "PORT": str(port)}, "on port")
    end_with_session(server.process)
    return f"http://127.0.0.1:{port}{TRANSPORT_PATHS[transport_name]}"


def reached(kind: Any, **settings: Any) -> Any:
    """A client of this class, of the server in the way of the test."""
    if _transport.get() == "stdio":
        return kind.stdio(*program(), "stdio", stderr=_ignore, **settings)
    return kind.http(_served(_transport.get()), **settings)


def _ignore(line: str) -> None:
    """What the server says on standard error is not a part of these tests."""


def converse(conversation: Callable[[Everything], Awaitable[None]]) -> None:
    """Hold a conversation with a server, in a session of its own."""

    async def opened() -> None:
        client = await _negotiated()
        try:
            await conversation(client)
        finally:
            await client.close()

    asyncio.run(asyncio.wait_for(opened(), DEADLINE))


async def _negotiated() -> Everything:
    """The client, open: all five revisions are offered, and the server takes the newest with a handshake."""
    client = await negotiate(
        reached(v2024_11_05.Client),
        reached(v2025_03_26.Client),
        reached(v2025_06_18.Client),
        reached(Everything, capabilities=CAPABILITIES),
        reached(v2026_07_28.Client),
    )
    assert isinstance(client, Everything), f"agreed on {client.revision.id}"
    return client


def text(result: t.CallToolResult, number: int = 0) -> str:
    """One of the texts of a result."""
    content = result.content[number]
    assert isinstance(content, t.TextContent)
    return content.text
