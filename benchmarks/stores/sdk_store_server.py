"""The echo server of store_cost.py with the official Python SDK, whose event store is a Redis: `… URL PORT`."""

from __future__ import annotations

import sys
from typing import Any

import mcp_types as types
import redis.asyncio as redis
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore

LENGTH = 1024  # Events of one stream that are stored, as in our stores.
SECONDS = 3600


class RedisEventStore(EventStore):
    """The events of each stream in a stream of Redis, as its users write it; one pipeline for each event."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(url)

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        """Store an event, and return its id."""
        key = f"events:{stream_id}"
        body = b"" if message is None else message.model_dump_json(by_alias=True, exclude_none=True).encode()
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.xadd(key, {"m": body}, maxlen=LENGTH)
        pipeline.expire(key, SECONDS)
        id, _ = await pipeline.execute()
        return f"{stream_id}/{id.decode()}"

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send the events after one."""
        stream, _, id = last_event_id.rpartition("/")
        for at, fields in await self._redis.xrange(f"events:{stream}", f"({id}", "+"):
            if fields[b"m"]:
                message = types.jsonrpc_message_adapter.validate_json(fields[b"m"])
                await send_callback(EventMessage(message, f"{stream}/{at.decode()}"))
        return stream


async def list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=schema) for name in ("echo", "report")])


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name == "report":
        await ctx.session.report_progress(1, 2)
    text = str((params.arguments or {})["text"])
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


if __name__ == "__main__":
    url, port = sys.argv[1:]
    server: Server[Any] = Server("echo", version="1.0", on_list_tools=list_tools, on_call_tool=call_tool)
    app = server.streamable_http_app(event_store=RedisEventStore(url))
    uvicorn.run(app, port=int(port), loop="uvloop", http="httptools", log_level="warning", backlog=4096)
