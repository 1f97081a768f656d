"""An app with middleware and a lifespan, and tools that use all of a context."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from feature_middleware import MIDDLEWARE
from pydantic import BaseModel

from mcp_generated import (
    AcceptedElicitation,
    App,
    Context,
    ServerSession,
)

ICON = {"src": "https://shop.example/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}


@dataclass
class Database:
    """What the lifespan yields."""

    name: str


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[Database]:
    """Yield the database."""
    yield Database("main")


app = App(
    "features",
    "All features of an app.",
    version="1.2",
    title="All features",
    description="An app with all features",
    website_url="https://shop.example",
    icons=[ICON],
    lifespan=lifespan,
    log_level="WARNING",
    dependencies=["httpx2"],
    middleware=MIDDLEWARE,
)


# ---- the context -----------------------------------------------------------------------------------------------------


class Booking(BaseModel):
    """A form."""

    name: str
    guests: int = 2


class Verdict(BaseModel):
    """The result of a model."""

    good: bool


@app.tool
def log_all(ctx: Context) -> str:
    """Send a log message of four levels."""
    ctx.sync.debug("d")
    ctx.sync.info("i", logger_name="names")
    ctx.sync.warning("w", extra={"count": 1})
    ctx.sync.error("e")
    return "logged"


@app.tool
def report(ctx: Context) -> str:
    """Report progress."""
    ctx.sync.report_progress(1, 2, "half")
    ctx.sync.report_progress(progress=2, total=2, message="done")
    return "reported"


@app.tool
async def own(ctx: Context) -> dict[str, Any]:
    """Return what the app itself has."""
    [content] = await ctx.read_resource("note://text")
    prompt = await ctx.get_prompt("question", {"thing": "tea"})
    return {
        "text": [content.content, content.mime_type],
        "prompt": prompt.messages[0].content.text,
        "tools": "own" in [tool.name for tool in await ctx.list_tools()],
        "resources": "note://text" in [resource.uri for resource in await ctx.list_resources()],
        "prompts": "question" in [prompt.name for prompt in await ctx.list_prompts()],
    }


@app.tool
async def book(message: str, ctx: Context) -> str:
    """Show a form."""
    answer = await ctx.elicit(message, Booking)
    match answer:
        case AcceptedElicitation(data=booking):
            return f"{answer.action} {type(booking).__name__} {booking.name} {booking.guests}"
        case _:
            return f"{answer.action} {answer.data}"


@app.tool
async def pay(ctx: Context) -> str:
    """Let the user visit a URL."""
    return (await ctx.elicit_url("Please pay", "https://example.com/pay", "payment-1")).action


@app.tool
async def write(ctx: Context) -> str:
    """Sample a text from messages that are strings."""
    return (await ctx.sample(["good", "morning"], system_prompt="Be brief")).text


@app.tool
async def judge(ctx: Context) -> str:
    """Sample a value of a type."""
    return repr((await ctx.sample("Is it good?", result_type=Verdict)).result)


@app.tool
def who(ctx: Context[Database]) -> dict[str, Any]:
    """Return what is there of the request."""
    request, context = ctx.request, ctx.request_context
    return {
        "state": [ctx.state.name, ctx.lifespan_context.name, context.lifespan_context.name],
        "host": None if request is None else request.headers["host"].partition(":")[0],
        "client": None if request is None or request.client is None else request.client.host,
        "client_id": ctx.client_id,
        "meta": None if context.meta is None else context.meta.get("test"),
        "same": context.request_id == ctx.request_id,
        "revision": ctx.protocol_version,
        "method": context.method,
    }


@app.tool
async def count(ctx: Context) -> str:
    """Count the calls of a session."""
    number = await ctx.get_state("count", 0) + 1
    await ctx.set_state("count", number)
    return str(number)


@app.tool
async def forget(ctx: Context) -> str:
    """Delete the count."""
    await ctx.delete_state("count")
    return str(await ctx.get_state("count"))


@app.tool
async def by_session(ctx: Context[ServerSession, Database]) -> list[str]:
    """Use the session as the official SDK has it."""
    await ctx.session.send_log_message("critical", "c", logger="names")
    message = {"role": "user", "content": {"type": "text", "text": "hello"}}
    result = await ctx.session.create_message([message], max_tokens=10)
    roots = await ctx.session.list_roots()
    return [result.content.text, *[str(root.uri) for root in roots.roots]]


@app.tool
async def change(ctx: Context) -> str:
    """Notify of changes, in both forms."""
    await ctx.session.send_tool_list_changed()
    await ctx.session.send_prompt_list_changed()
    await ctx.notify_resource_list_changed()
    return "changed"
