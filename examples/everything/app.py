"""Every feature of the protocol in one file, for clients of all versions, over stdio and HTTP.

Run it: `python examples/everything/app.py stdio`, or `… http --port 8000` with the endpoints /mcp and /sse (HTTP+SSE).
The handlers are those of the newest version; messages are converted for older clients.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from argparse import ArgumentParser
from typing import Annotated, Any, Final, Literal, TypedDict

from pydantic import Field

from mcp_generated import App, AssistantMessage, Audio, Context, Image, ToolError, UserMessage
from mcp_generated.v2026_07_28 import types as t

# One blue pixel, and half a millisecond of silence.
PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaDgAAAIkAWHdFJqQAAAAAElFTkSuQmCC"
)
WAV: Final = base64.b64decode("UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA")
CITIES: Final = ("Lyon", "Milan", "Padua", "Paris", "Pau", "Rome")
NUMBERS: Final = 1000

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

app = App(
    "everything",
    "Call `echo` first. Notes that `write_note` writes are resources with subscriptions.",
    version="1.0",
    page_size=5,
)
notes: dict[str, str] = {}


# ---- tools: results --------------------------------------------------------------------------------------------------


class Statistics(TypedDict):
    """The result of `statistics`."""

    count: int
    sum: float
    maximum: float


@app.tool(annotations={"readOnlyHint": True})
async def echo(text: str) -> str:
    """Return a text."""
    return text


@app.tool()
async def statistics(numbers: Annotated[list[float], Field(min_length=1)]) -> Statistics:
    """Compute count, sum and maximum of numbers.

    Args:
        numbers: At least one.
    """
    return {"count": len(numbers), "sum": sum(numbers), "maximum": max(numbers)}


@app.tool()
async def image() -> Image:
    """Return an image."""
    return Image(PNG)


@app.tool()
async def audio() -> Audio:
    """Return a sound."""
    return Audio(WAV)


@app.tool()
async def mixed() -> list[str | Image | t.EmbeddedResource | t.ResourceLink]:
    """Return a text, an image, an embedded resource and a resource link."""
    return ["Some of everything:", Image(PNG), embedded(), t.ResourceLink(uri="demo://image", name="image")]


@app.tool()
async def fail() -> str:
    """Fail."""
    raise ToolError("This tool always fails.")


# ---- tools: progress, logging, changes -------------------------------------------------------------------------------


@app.tool()
async def long_running(ctx: Context, seconds: Annotated[float, Field(ge=0, le=60)] = 1.0, steps: int = 5) -> str:
    """Run for some seconds and report progress."""
    for step in range(steps):
        await ctx.progress(step, total=steps, message=f"step {step + 1}")
        await asyncio.sleep(seconds / steps)
    await ctx.progress(steps, total=steps, message="done")
    return f"{steps} steps in {seconds:g} s"


@app.tool()
async def log_something(level: Level, text: str, ctx: Context) -> str:
    """Send a log message."""
    await ctx.log(level, {"text": text}, "everything")
    return "logged"


@app.tool()
async def write_note(name: Annotated[str, Field(pattern="^[a-z]{1,20}$")], text: str) -> str:
    """Write a resource, and notify subscribers of it and of the list."""
    uri, is_new = f"note://{name}", name not in notes
    notes[name] = text
    if is_new:
        app.add_resource(uri, lambda: notes[name], name=name, mime_type="text/plain")
    await app.server.notify_resource_updated(uri=uri)
    return uri


@app.tool()
async def toggle_extra() -> str:
    """Add or remove the tool `extra`, and notify subscribers."""
    if any(tool.name == "extra" for tool in await app.list_tools()):
        app.remove_tool("extra")
        return "gone"
    app.add_tool(extra)
    return "here"


async def extra() -> str:
    """Exist for a while."""
    return "I am only here for a while."


# ---- tools: requests to the client -----------------------------------------------------------------------------------


@app.tool()
async def sample(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    message = t.SamplingMessage(role="user", content=t.TextContent(text=prompt))
    result: Any = await ctx.sample(messages=[message], max_tokens=100)
    return f"{result.model} ({result.stop_reason}): {result.content.text}"


@app.tool()
async def list_roots(ctx: Context) -> str:
    """List the client's roots."""
    return "\n".join(f"{root.name}: {root.uri}" for root in (await ctx.list_roots()).roots)


@app.tool()
async def elicit_name(ctx: Context) -> str:
    """Ask the user to fill in a form."""
    form: dict[str, Any] = {
        "name": {"type": "string", "title": "Name", "minLength": 1},
        "size": {"type": "string", "enum": ["s", "m", "l"], "default": "m"},
    }
    schema = {"type": "object", "properties": form, "required": ["name"]}
    params = t.ElicitRequestFormParams.model_validate({"message": "Who are you?", "requestedSchema": schema})
    result: Any = await ctx.elicit(params)
    values = ", ".join(f"{name}={value}" for name, value in sorted((result.content or {}).items()))
    return f"{result.action}: {values}" if values else str(result.action)


# ---- resources -------------------------------------------------------------------------------------------------------


@app.resource("demo://text", mime_type="text/plain")
async def text() -> str:
    """Return a text."""
    return "héllo"


@app.resource("demo://image", mime_type="image/png")
async def picture() -> bytes:
    """One blue pixel."""
    return PNG


@app.resource("demo://number/{n}", mime_type="text/plain")
async def number(n: Annotated[int, Field(ge=0, lt=NUMBERS)]) -> str:
    """Return a number below 1,000."""
    return f"This is number {n}."


def embedded() -> t.EmbeddedResource:
    """Return the text resource as an embedded resource."""
    content = t.TextResourceContents(uri="demo://text", mime_type="text/plain", text="héllo")
    return t.EmbeddedResource(resource=content, annotations=t.Annotations(audience=["user"], priority=1))


# ---- prompts and completion ------------------------------------------------------------------------------------------


@app.prompt()
async def describe(city: str, style: str = "short") -> str:
    """Request a text about a city.

    Args:
        city: Its name in English.
        style: The style of the text.
    """
    return f"Describe {city} in a {style} text."


@app.prompt()
async def with_everything() -> list[UserMessage | AssistantMessage]:
    """Return a prompt with an image, a resource and a message of the assistant."""
    return [UserMessage(Image(PNG)), UserMessage(embedded()), AssistantMessage("It is blue.")]


@app.completion()
def complete(ref: t.PromptReference | t.ResourceTemplateReference, argument: t.CompletionArgument) -> list[str]:
    """Complete an argument."""
    values = {"city": CITIES, "style": ("long", "loud", "short"), "n": map(str, range(NUMBERS))}
    return [value for value in values.get(argument.name, ()) if value.lower().startswith(argument.value.lower())]


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("transport", nargs="?", choices=("stdio", "http"), default="stdio")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    app.run(options.transport, **({"port": options.port, "legacy_sse": True} if options.transport == "http" else {}))
