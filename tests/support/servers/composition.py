"""An app whose parts are composed: dependencies, middleware, visibility, time-outs, changed tools, ready resources and
a route, over stdio, or HTTP on a free port."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any

from pydantic import BaseModel

from mcp_generated import (
    App,
    ArgTransform,
    Context,
    Depends,
    Middleware,
    MiddlewareContext,
    TextResource,
    Tool,
    ToolError,
)
from mcp_generated.dependencies import Elicit, Resolve


class Guest(BaseModel):
    """A form."""

    name: str


class Guard(Middleware):
    """Refuses to delete, and does not list what deletes."""

    async def on_call_tool(self, context: MiddlewareContext, call_next: Any) -> Any:
        if context.message.name.startswith("delete_"):
            raise ToolError("nothing is deleted today")
        return await call_next(context)

    async def on_list_tools(self, context: MiddlewareContext, call_next: Any) -> Any:
        return [tool for tool in await call_next(context) if not tool.name.startswith("delete_")]


app = App("composition", title="Composition", website_url="https://shop.example", middleware=[Guard()])


async def prices() -> AsyncIterator[dict[str, int]]:
    """Yield the prices."""
    yield {"tea": 3}


def guest() -> Elicit[Guest]:
    """Let the user say the name."""
    return Elicit("Who is there?", Guest)


@app.tool
def price(item: str, table: Annotated[dict[str, int], Depends(prices)]) -> str:
    """Look a price up in a table that is a dependency."""
    return f"{table[item]} EUR"


@app.tool
def greet(person: Annotated[Guest, Resolve(guest)]) -> str:
    """Greet the user by the name in a form."""
    return f"Hello {person.name}"


@app.tool(timeout=0.05)
async def wait() -> str:
    """Wait without end."""
    await asyncio.Event().wait()
    return "never"


@app.tool
def delete_all() -> str:
    """Delete all, unless a middleware refuses."""
    return "deleted"


@app.tool(tags={"secret"})
def secret() -> str:
    """Say what is disabled at first."""
    return "open"


@app.tool
async def unlock(ctx: Context) -> str:
    """Enable the secret for the session."""
    await ctx.enable_components(tags={"secret"})
    return "unlocked"


app.add_tool(Tool.from_tool("price", "cost", transform_args={"item": ArgTransform(name="thing")}))
app.disable(tags={"secret"})
app.add_resource(TextResource(uri="note://text", name="note", text="a note"))


@app.prompt
def question(thing: str, table: Annotated[dict[str, int], Depends(prices)]) -> str:
    """Ask about a thing."""
    return f"Is {table[thing]} EUR too much for {thing}?"


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    if sys.argv[1:] == ["http"]:
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse

        @app.custom_route("/health", ["GET"])
        async def health(request: Request) -> PlainTextResponse:
            """Say that the server runs."""
            return PlainTextResponse("well")

        app.run("http", port=0, legacy_sse=True)
    else:
        app.run("stdio")
