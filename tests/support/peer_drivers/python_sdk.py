"""Print as JSON what the official Python SDK's client sees of a server, at a revision, by its command or its URL.

Runs in an environment that holds that SDK, version 1 or 2, and nothing of ours. Answers are printed as they are on the
wire, errors as `{"error": {"code": …, "message": …}}`.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp.client.session
import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

LIMIT = 40.0  # Seconds for all of it.
WAIT = 10.0  # Seconds for one notification.


class Callbacks:
    """What the server asks and tells; everything told is kept, and can be waited for."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.messages: list[Any] = []
        self._more = anyio.Event()

    async def sample(self, context: Any, params: Any) -> Any:
        self.requests.append(wire(params))
        text = params.messages[0].content.text
        if text == "refuse":
            return types.ErrorData(code=-1, message="not today")
        answer = {"role": "assistant", "content": {"type": "text", "text": text.upper()}, "model": "parrot"}
        return types.CreateMessageResult.model_validate({**answer, "stopReason": "endTurn"})

    async def elicit(self, context: Any, params: Any) -> Any:
        self.requests.append(wire(params))
        if getattr(params, "mode", None) == "url":
            return types.ElicitResult(action="accept")
        return types.ElicitResult(action="accept", content={"name": "Ada", "age": 36, "news": True, "size": "m"})

    async def roots(self, context: Any) -> Any:
        return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///work", "name": "work"}]})

    async def log(self, params: Any) -> None:
        """Log messages come to `message` as well."""

    async def message(self, message: Any) -> None:
        unwrapped = getattr(message, "root", message)
        if hasattr(unwrapped, "method"):
            self.messages.append(wire(unwrapped))
            self._more.set()

    async def until(self, method: str) -> Any:
        """The params of the first notification of a method that was not waited for yet."""
        with anyio.fail_after(WAIT):
            while True:
                for notification in self.messages:
                    if notification["method"] == method:
                        self.messages.remove(notification)
                        return notification.get("params", {})
                self._more = anyio.Event()
                await self._more.wait()


def wire(value: Any) -> Any:
    """What came, without the defaults that the SDK's models add."""
    return value.model_dump(by_alias=True, mode="json", exclude_none=True, exclude_unset=True)


def uri(text: str) -> Any:
    """Version 1 takes URIs as objects, version 2 as strings."""
    return text if hasattr(mcp, "Client") else types.AnyUrl(text)


async def outcome(work: Awaitable[Any]) -> Any:
    """The answer, or the error, as JSON."""
    try:
        return wire(await work)
    except Exception as raised:
        error = getattr(raised, "error", None)
        return {"error": wire(error) if error is not None else repr(raised)}


async def pages(list_page: Any, items: str) -> list[Any]:
    """The pages of a list, each as its items."""
    pages_read, cursor = [], None
    while True:
        page = wire(await list_page(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None))
        pages_read.append(page[items])
        cursor = page.get("nextCursor")
        if cursor is None:
            return pages_read


async def lists(session: Any) -> dict[str, Any]:
    bad = types.PaginatedRequestParams(cursor="bad")
    return {
        "tools": await pages(session.list_tools, "tools"),
        "resources": await pages(session.list_resources, "resources"),
        "templates": await pages(session.list_resource_templates, "resourceTemplates"),
        "prompts": await pages(session.list_prompts, "prompts"),
        "bad": {
            "tools": await outcome(session.list_tools(params=bad)),
            "resources": await outcome(session.list_resources(params=bad)),
            "prompts": await outcome(session.list_prompts(params=bad)),
        },
    }


async def calls(session: Any) -> dict[str, Any]:
    """Tools that need nothing of the client."""
    arguments: dict[str, Any] = {
        "echo": {"text": "héllo\n\u2028"},
        "add": {"a": 2, "b": 0.5},
        "embedded": {"uri": "demo://image"},
        "statistics": {"numbers": [1, 2.5, 3]},
    }
    names = ["echo", "add", "image", "audio", "embedded", "links", "statistics", "fail", "nonsense"]
    done = {name: await outcome(session.call_tool(name, arguments.get(name))) for name in names}
    return {**done, "wrong": await outcome(session.call_tool("add", {"a": 1, "b": "two"}))}


async def asking(session: Any, callbacks: Callbacks) -> dict[str, Any]:
    """Tools that ask the client."""
    done: dict[str, Any] = {}
    for name in ("sample", "list_roots", "elicit_name", "locked", "visit_page"):
        done[name] = await outcome(session.call_tool(name, {"prompt": "hello"} if name == "sample" else None))
    done["unlocked"] = await outcome(session.call_tool("locked"))
    done["refused"] = await outcome(session.call_tool("sample", {"prompt": "refuse", "max_tokens": 7}))
    await session.send_roots_list_changed()
    done["roots"] = await callbacks.until("notifications/message")
    return {**done, "asked": callbacks.requests}


async def resources(session: Any, callbacks: Callbacks) -> dict[str, Any]:
    done: dict[str, Any] = {}
    for address in ("demo://text", "demo://image", "demo://number/7", "demo://nothing"):
        done[address] = await outcome(session.read_resource(uri(address)))
    await session.call_tool("write_note", {"name": "milk", "text": "one"})
    await callbacks.until("notifications/resources/list_changed")
    done["no note"] = await outcome(session.subscribe_resource(uri("note://none")))
    done["subscribe"] = await outcome(session.subscribe_resource(uri("note://milk")))
    await session.call_tool("write_note", {"name": "milk", "text": "two"})
    done["updated"] = await callbacks.until("notifications/resources/updated")
    done["note"] = await outcome(session.read_resource(uri("note://milk")))
    done["unsubscribe"] = await outcome(session.unsubscribe_resource(uri("note://milk")))
    await session.call_tool("write_note", {"name": "milk", "text": "three"})
    await session.send_ping()
    done["left"] = list(callbacks.messages)
    return done


async def prompts(session: Any) -> dict[str, Any]:
    return {
        "simple": await outcome(session.get_prompt("simple")),
        "describe": await outcome(session.get_prompt("describe", {"city": "Rome", "style": "long"})),
        "with_resource": await outcome(session.get_prompt("with_resource", {"uri": "demo://text"})),
        "with_image": await outcome(session.get_prompt("with_image")),
        "missing": await outcome(session.get_prompt("describe", {})),
        "nonsense": await outcome(session.get_prompt("nonsense")),
    }


async def completion(session: Any) -> dict[str, Any]:
    prompt = types.PromptReference(type="ref/prompt", name="describe")
    kind = getattr(types, "ResourceTemplateReference", None) or types.ResourceReference
    template = kind(type="ref/resource", uri="demo://number/{n}")
    city = {"name": "city", "value": "pa"}
    return {
        "city": await outcome(session.complete(prompt, city)),
        "city in France": await outcome(session.complete(prompt, city, {"country": "France"})),
        "number": await outcome(session.complete(template, {"name": "n", "value": ""})),
        "few numbers": await outcome(session.complete(template, {"name": "n", "value": "99"})),
        "nonsense": await outcome(session.complete(prompt, {"name": "nonsense", "value": ""})),
    }


async def logging(session: Any, callbacks: Callbacks) -> dict[str, Any]:
    done = {"set": await outcome(session.set_logging_level("warning"))}
    for level in ("info", "error"):
        await session.call_tool("log_something", {"level": level, "text": f"an {level}"})
    done["first"] = await callbacks.until("notifications/message")
    return {**done, "left": list(callbacks.messages)}


async def changes(session: Any, callbacks: Callbacks) -> dict[str, Any]:
    done = {"here": await outcome(session.call_tool("toggle_extra"))}
    for kind in ("tools", "prompts"):
        await callbacks.until(f"notifications/{kind}/list_changed")
    done["extra"] = await outcome(session.call_tool("extra"))
    done["prompt"] = await outcome(session.get_prompt("extra"))
    done["gone"] = await outcome(session.call_tool("toggle_extra"))
    return {**done, "no extra": await outcome(session.call_tool("extra"))}


async def progress(session: Any) -> dict[str, Any]:
    seen: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append([progress, total, message])

    arguments = {"seconds": 0.1, "steps": 2}
    result = await outcome(session.call_tool("long_running", arguments, progress_callback=on_progress))
    return {"result": result, "seen": seen}


async def cancellation(session: Any) -> dict[str, Any]:
    """Give up a call that the server is at work on."""
    ids: list[int] = []

    async def call() -> None:
        ids.append(getattr(session, "_request_id", -1))  # Version 1 counts up, and does not say which it takes.
        await session.call_tool("long_running", {"seconds": 60, "steps": 1})

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await session.send_ping()  # Once it is answered, the call is sent;
        await session.send_ping()  # and once this one is, the server has it.
        if not hasattr(mcp, "Client"):
            # Version 1 does not tell the server that a call was cancelled, so that is done by hand.
            params = types.CancelledNotificationParams(requestId=ids[0], reason="enough")
            cancelled = types.CancelledNotification(method="notifications/cancelled", params=params)
            await session.send_notification(types.ClientNotification(cancelled))
        group.cancel_scope.cancel()
    await session.send_ping()
    return wire(await session.read_resource(uri("demo://status")))


async def tasks(session: Any) -> dict[str, Any]:
    """A tool that runs as a task, which version 1 of the SDK can do and version 2 cannot."""
    experimental = session.experimental
    arguments = {"seconds": 0.1, "steps": 2}
    created = (await experimental.call_tool_as_task("long_running", arguments)).task
    done = {
        "made": wire(created),
        "result": await outcome(experimental.get_task_result(created.taskId, types.CallToolResult)),
    }
    done["after"] = await outcome(experimental.get_task(created.taskId))
    endless = (await experimental.call_tool_as_task("long_running", {"seconds": 60})).task
    done["cancelled"] = await outcome(experimental.cancel_task(endless.taskId))
    done["listed"] = await outcome(experimental.list_tasks())
    done["forbidden"] = await outcome(experimental.call_tool_as_task("echo", {"text": "x"}))
    return {**done, "unknown": await outcome(experimental.get_task("none"))}


@asynccontextmanager
async def connected(server: list[str]) -> AsyncIterator[Any]:
    """What is read from a server and written to it: a command, or a URL, which ends in /sse for the older HTTP."""
    match server:
        case [url] if url.startswith("http:"):
            async with (sse_client if url.endswith("/sse") else streamable_http_client)(url) as streams:
                yield streams[:2]  # Version 1 gives a third thing over Streamable HTTP.
        case [command, *arguments]:
            async with stdio_client(StdioServerParameters(command=command, args=arguments)) as streams:
                yield streams


async def everything(revision: str, server: list[str]) -> dict[str, Any]:
    callbacks = Callbacks()
    async with (
        connected(server) as streams,
        ClientSession(
            *streams,
            sampling_callback=callbacks.sample,
            elicitation_callback=callbacks.elicit,
            list_roots_callback=callbacks.roots,
            logging_callback=callbacks.log,
            message_handler=callbacks.message,
        ) as session,
    ):
        seen = {"initialize": wire(await session.initialize()), "ping": await outcome(session.send_ping())}
        seen["lists"] = await lists(session)
        seen["calls"] = await calls(session)
        seen["asking"] = await asking(session, callbacks)
        seen["resources"] = await resources(session, callbacks)
        seen["prompts"] = await prompts(session)
        seen["completion"] = await completion(session)
        seen["changes"] = await changes(session, callbacks)
        seen["progress"] = await progress(session)
        seen["cancellation"] = await cancellation(session)
        if revision == "2025-11-25" and hasattr(ClientSession, "experimental"):
            seen["tasks"] = await tasks(session)
        seen["logging"] = await logging(session, callbacks)
    return seen


def offer(revision: str) -> None:
    """Let the SDK offer this revision; it has no setting for that, and would always offer its newest."""
    if hasattr(mcp, "Client"):
        mcp.client.session.LATEST_HANDSHAKE_VERSION = revision
    else:
        types.LATEST_PROTOCOL_VERSION = revision


async def main(revision: str, server: list[str]) -> None:
    offer(revision)
    with anyio.fail_after(LIMIT):
        print(json.dumps(await everything(revision, server)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Much of what is asked here is deprecated in the newest revision.
    anyio.run(main, sys.argv[1], sys.argv[2:])
