"""An app whose tools use every method of the context, without capabilities: over stdio, or HTTP with a port."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, Field

from mcp_generated import (
    AcceptedElicitation,
    App,
    CancelledElicitation,
    ClientCapabilityError,
    Context,
    DeclinedElicitation,
    ServerSession,
)


@dataclass
class Database:
    """What the lifespan yields."""

    name: str


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[Database]:
    """Yield the database."""
    yield Database("main")


app = App("context", lifespan=lifespan)


class Booking(BaseModel):
    """A form."""

    name: str = Field(description="The name of the guest", min_length=1)
    guests: int = Field(default=2, ge=1, le=9)
    vegetarian: bool = False
    comment: str | None = None


@dataclass
class Address:
    """A form."""

    street: str
    number: int = 1


class Colour(TypedDict):
    """A form."""

    red: int


class Size(Enum):
    """A choice."""

    SMALL = "s"
    LARGE = "l"


SHAPES: dict[str, Any] = {
    "model": Booking,
    "dataclass": Address,
    "typeddict": Colour,
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "literal": Literal["s", "l"],
    "enum": Size,
    "list": ["s", "l"],
    "titled": {"s": {"title": "Small"}, "l": {"title": "Large"}},
    "several": [["s", "l"]],
    "literals": list[Literal["s", "l"]],
    "schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
}


@app.tool()
async def log_all(ctx: Context) -> str:
    """Send a log message of each level."""
    await ctx.debug("d")
    await ctx.info("i", logger_name="names")
    await ctx.warning("w", extra={"count": 1})
    await ctx.error("e")
    await ctx.log("notice", {"text": "n"}, "names")
    await ctx.session.send_log_message("critical", "c", logger="names")
    return "logged"


@app.tool()
async def report(ctx: Context) -> str:
    """Report progress."""
    await ctx.report_progress(1, 2, "half")
    await ctx.report_progress(progress=2, total=2, message="done")
    return "reported"


@app.resource("note://text", mime_type="text/plain")
def text() -> str:
    """A text."""
    return "a note"


@app.resource("note://bytes", mime_type="image/png")
def picture() -> bytes:
    """An image."""
    return b"\x89"


@app.prompt()
def greet(name: str) -> str:
    """A prompt."""
    return f"Greet {name}"


@app.tool()
async def own(ctx: Context) -> dict[str, Any]:
    """Return what the app itself has."""
    [content] = await ctx.read_resource("note://text")
    [blob] = await ctx.read_resource("note://bytes")
    prompt = await ctx.get_prompt("greet", {"name": "Ada"})
    return {
        "text": [content.content, content.mime_type],
        "bytes": blob.content == b"\x89",
        "resources": [resource.uri for resource in await ctx.list_resources()],
        "prompts": [prompt.name for prompt in await ctx.list_prompts()],
        "prompt": prompt.messages[0].content.text,
        "has_tool": "own" in [tool.name for tool in await ctx.list_tools()],
    }


@app.tool()
async def fill_in(shape: str, ctx: Context) -> dict[str, Any]:
    """Show a form."""
    await ctx.info(f"form {shape}")
    match await ctx.elicit("Please fill in", SHAPES[shape]):
        case AcceptedElicitation(data=data) as result:
            return {"action": result.action, "type": type(data).__name__, "data": str(data)}
        case DeclinedElicitation() as refused:
            return {"action": refused.action, "data": refused.data}
        case CancelledElicitation() as cancelled:
            return {"action": cancelled.action, "data": cancelled.data}


@app.tool()
async def two_forms(ctx: Context) -> str:
    """Show two forms, one after the other, and log between them."""
    await ctx.info("first")
    await ctx.set_state("forms", await ctx.get_state("forms", 0) + 1)
    name = await ctx.elicit("Name?", response_type=str)
    await ctx.info("second")
    sure = await ctx.elicit(message="Sure?", schema=bool)
    await ctx.info("third")
    return f"{name.data} {sure.data} {await ctx.get_state('forms')}"


@app.tool()
async def without_forms(ctx: Context) -> str:
    """Do without a form if the client has none."""
    try:
        result = await ctx.elicit("Name?", str)
    except ClientCapabilityError:
        return "no forms"
    return str(result.data)


@app.tool()
async def visit(ctx: Context) -> str:
    """Let the user visit a URL."""
    result = await ctx.elicit_url("Please pay", "https://example.com/pay", "payment-1")
    await ctx.session.send_elicit_complete("payment-1")
    return result.action


class Verdict(BaseModel):
    """The result of a model."""

    good: bool


@app.tool()
async def write(ctx: Context) -> dict[str, Any]:
    """Sample messages."""
    plain = await ctx.sample("hello", system_prompt="Be brief", temperature=0.5, model_preferences=["m", "n"])
    verdict = await ctx.sample(["Is it", "good?"], max_tokens=50, result_type=Verdict, model_preferences="m")
    return {"text": plain.text, "model": plain.model, "good": verdict.result.good}


@app.tool()
async def write_text(ctx: Context) -> str:
    """Sample a text."""
    return (await ctx.sample("hello")).result


@app.tool()
async def by_session(ctx: Context[ServerSession, Database]) -> dict[str, Any]:
    """Use the session as the official SDK has it."""
    message = {"role": "user", "content": {"type": "text", "text": "hello"}}
    result = await ctx.session.create_message([message], max_tokens=10)
    roots = await ctx.session.list_roots()
    await ctx.session.send_ping()
    return {"text": result.content.text, "roots": [root.name for root in roots.roots]}


@app.tool()
async def fill_in_by_session(ctx: Context) -> str:
    """Show a form as the official SDK does."""
    schema: dict[str, Any] = {"type": "object", "properties": {"value": {"type": "string"}}}
    result = await ctx.session.elicit_form(message="Value?", requestedSchema=schema)
    return f"{result.action} {result.content}"


@app.tool()
async def who(ctx: Context[Database]) -> dict[str, Any]:
    """Return what is there of the request."""
    request, context = ctx.request, ctx.request_context
    return {
        "state": [ctx.state.name, ctx.lifespan_context.name, context.lifespan_context.name],
        "http": (
            None if request is None else [request.method, request.path, request.headers.get("X-Test"), request.url.path]
        ),
        "client": None if request is None or request.client is None else request.client.host,
        "same": context.request is None if request is None else context.request.method == "POST",
        "client_id": ctx.client_id,
        "session_id": ctx.session_id,
        "revision": ctx.protocol_version,
        "request_id": ctx.request_id == context.request_id,
        "meta": None if context.meta is None else context.meta.get("test"),
        "app": ctx.app is app and ctx.fastmcp is app,
        "method": context.method,
        "name": ctx.session.client_info["name"],
    }


@app.tool()
async def count(ctx: Context) -> str:
    """Count the calls of a session."""
    number = int(await ctx.get_state("count") or 0) + 1
    await ctx.set_state("count", number)
    return str(number)


@app.tool()
async def forget(ctx: Context) -> str:
    """Delete the count, and store an object for this request."""
    await ctx.delete_state("count")
    await ctx.set_state("object", object(), serializable=False)
    return type(await ctx.get_state("object")).__name__


@app.tool()
async def change(ctx: Context, action: str) -> str:
    """Notify of changes."""
    match action:
        case "resource":
            await ctx.notify_resource_updated("note://text")
        case "session resource":
            await ctx.session.send_resource_updated("note://text")
        case "lists":
            await ctx.notify_tool_list_changed()
            await ctx.notify_resource_list_changed()
            await ctx.notify_prompt_list_changed()
        case _:
            await ctx.session.send_tool_list_changed()
            await ctx.session.send_resource_list_changed()
            await ctx.session.send_prompt_list_changed()
    return action


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    if sys.argv[1:] == ["http"]:
        app.run("http", port=0, legacy_sse=True)
    else:
        app.run("stdio")
