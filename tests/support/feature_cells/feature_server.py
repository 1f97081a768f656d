"""An app with all features of a context, of dependencies, of middleware and of changed tools, without capabilities:
over stdio, or HTTP on a free port, or HTTP with JSON responses and without sessions below a Starlette application.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

from feature_context import ICON, Booking, app
from feature_middleware import hooks, recorder

from mcp_generated import (
    ArgTransform,
    Context,
    Depends,
    DirectoryResource,
    FileResource,
    HttpResource,
    TextResource,
    Tool,
    forward,
)
from mcp_generated.dependencies import Elicit, ListRoots, Resolve, Sample

# ---- dependencies ----------------------------------------------------------------------------------------------------

opened: list[str] = []


async def prices() -> AsyncIterator[dict[str, int]]:
    """Yield the prices, and count how often they are opened and closed."""
    opened.append("open")
    yield {"tea": 3}
    opened.append("close")


def discount(table: Annotated[dict[str, int], Depends(prices)]) -> Iterator[int]:
    """Yield a price that depends on the same table."""
    yield table["tea"] - 1


Prices = Annotated[dict[str, int], Depends(prices)]


@app.tool(icons=[ICON], title="The price", tags={"shop"})
def price(item: str, table: Prices, reduced: int = Depends(discount)) -> str:
    """Look a price up in a table that is a dependency, and in the same table again."""
    return f"{table[item]} EUR, {reduced} EUR, opened {opened.count('open') - opened.count('close')}"


@app.tool
def still_open() -> int:
    """Return how many tables are not closed."""
    return opened.count("open") - opened.count("close")


def guest() -> Elicit[Booking]:
    """Let the user say the name."""
    return Elicit("Who is there?", Booking)


def capital() -> Sample:
    """Let the model say a word."""
    return Sample([{"role": "user", "content": {"type": "text", "text": "rome"}}], max_tokens=7)


def roots() -> ListRoots:
    """Return what lists the roots."""
    return ListRoots()


@app.tool
def greet(person: Annotated[Booking, Resolve(guest)]) -> str:
    """Greet the user by the name in a form."""
    return f"Hello {person.name}"


@app.tool
def visit(answer: Annotated[Any, Resolve(capital)], folders: Annotated[Any, Resolve(roots)]) -> str:
    """Return what the model and the roots are."""
    return f"{answer.content.text} {folders.roots[0].uri}"


# ---- what middleware sees --------------------------------------------------------------------------------------------


@app.tool
async def passed(ctx: Context) -> list[str]:
    """Return the hooks of this call."""
    return list(await ctx.get_state("hooks"))


@app.tool
def starts() -> list[str]:
    """Return the hooks of the messages at the start of clients."""
    return sorted(hooks.starts)


@app.resource("hooks://passed", mime_type="application/json")
async def passed_by_reads(ctx: Context) -> list[str]:
    """Return the hooks of this read."""
    return list(await ctx.get_state("hooks"))


@app.prompt(name="passed", icons=[ICON])
async def passed_by_prompts(ctx: Context) -> str:
    """Return the hooks of this prompt."""
    return " ".join(await ctx.get_state("hooks"))


@app.tool
def hidden_tool() -> str:
    """Return what no client gets."""
    return "never"


@app.resource("hidden://text")
@app.resource("hidden://{name}")
def hidden_text(name: str = "") -> str:
    """Return what is not listed."""
    return "hidden"


@app.prompt
def hidden_prompt() -> str:
    """Return what is not listed."""
    return "hidden"


@app.completion
def complete(ref: Any, argument: Any) -> list[str]:
    """Complete an argument."""
    return ["from the app"]


@app.tool
def journal_of(word: str) -> list[str]:
    """Return the beginnings of the lines that the ready middleware has logged, if they have a word in them."""
    return sorted({line.partition(" completed")[0][:70] for line in recorder.lines if word in line})


attempts: dict[str, int] = {}


@app.tool
def flaky(caller: str) -> str:
    """Fail twice."""
    attempts[caller] = attempts.get(caller, 0) + 1
    if attempts[caller] <= 2:
        raise ConnectionError("the line is busy")
    return f"attempt {attempts[caller]}"


@app.tool
def broken() -> str:
    """Fail."""
    raise ValueError("this is too big")


@app.tool
def large() -> str:
    """Return a long text."""
    return "long " * 200


@app.tool(name="limited")
@app.tool(name="limited_window")
def limited(caller: str) -> str:
    """Be called seldom."""
    return "passed"


@app.tool
def number(caller: str) -> int:
    """Return another number for each call, unless the result is cached."""
    attempts[f"number {caller}"] = attempts.get(f"number {caller}", 0) + 1
    return attempts[f"number {caller}"]


@app.tool(tags={"admin"})
def erase() -> str:
    """Be there for administrators, and where there are no users."""
    return "erased"


# ---- visibility, time-outs, changed tools ----------------------------------------------------------------------------


@app.tool(tags={"secret"})
def secret() -> str:
    """Be disabled at first."""
    return "open"


app.disable(tags={"secret"})


@app.tool
async def unlock(ctx: Context) -> str:
    """Enable the secret for the session."""
    await ctx.enable_components(tags={"secret"})
    return "unlocked"


@app.tool
async def lock(ctx: Context) -> str:
    """Reset what is enabled for the session."""
    await ctx.reset_visibility()
    return "locked"


@app.tool(timeout=0.05)
async def wait() -> str:
    """Wait without end."""
    await asyncio.Event().wait()
    return "never"


async def shout(thing: str) -> str:
    """Shout what a tool returns."""
    result = await forward(thing=thing.strip())
    return f"{result.content[0].text.partition(',')[0]}!"


RENAMED = {"item": ArgTransform(name="thing", description="What to buy.")}
app.add_tool(Tool.from_tool("price", "cost", description="Return what it costs.", transform_args=RENAMED))
app.add_tool(Tool.from_tool("price", "tea", transform_args={"item": ArgTransform(hide=True, default="tea")}))
app.add_tool(Tool.from_tool("price", "shout", transform_args=RENAMED, transform_fn=shout))


# ---- resources, settings ---------------------------------------------------------------------------------------------

folder = Path(__file__).with_name("files")
app.add_resource(TextResource(uri="note://text", name="note", text="a note", icons=[ICON]))
app.add_resource(FileResource(uri="note://file", path=folder / "a.md", mime_type="text/markdown"))
app.add_resource(DirectoryResource(uri="note://folder", path=folder))


class News(BaseHTTPRequestHandler):
    """A web server of this process."""

    def do_GET(self) -> None:
        """Return a text."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"some news")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing."""


web = ThreadingHTTPServer(("127.0.0.1", 0), News)
threading.Thread(target=web.serve_forever, daemon=True).start()
app.add_resource(HttpResource(uri="note://http", url=f"http://127.0.0.1:{web.server_address[1]}/news"))


@app.resource("note://about/{thing}", icons=[ICON])
def about(thing: str, table: Prices) -> str:
    """Return the price of a thing."""
    return f"{thing} costs {table[thing]} EUR"


@app.prompt
def question(thing: str, table: Prices) -> str:
    """Ask about a thing."""
    return f"Is {table[thing]} EUR too much for {thing}?"


@app.tool
def settings() -> list[Any]:
    """Return the settings of the app."""
    return [app.settings.log_level, list(app.dependencies), app.name]


def mounted() -> None:
    """Serve the app in another one, with JSON responses and without sessions, as users of the official SDK write it."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    inner = app.streamable_http_app(json_response=True, stateless_http=True)

    @asynccontextmanager
    async def sessions(web: Any) -> AsyncIterator[None]:
        async with app.session_manager.run():
            yield

    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening at http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    outer = Starlette(routes=[Mount("/", app=inner)], lifespan=sessions)
    uvicorn.Server(uvicorn.Config(outer, log_level="warning")).run(sockets=[listener])


def main(mode: str) -> None:
    """Serve the app over a transport."""
    if mode == "stdio":
        asyncio.run(app.run_async("stdio"))
        return
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse

    @app.custom_route("/health", ["GET"])
    async def health(request: Request) -> PlainTextResponse:
        """Return that the server runs."""
        return PlainTextResponse("well")

    if mode == "mounted":
        mounted()
    else:
        asyncio.run(app.run_async("http", port=0, legacy_sse=True, log_level="INFO"))


if __name__ == "__main__":
    main(*sys.argv[1:] or ["stdio"])
