"""A server that has everything the official conformance suite asks for, for clients of every revision.

Run it: `python tests/conformance/server.py --port 8000`; the endpoint is /mcp. Or `… server.py stdio`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from argparse import ArgumentParser
from pathlib import Path
from typing import Annotated, Any, Final

from asking import QUESTIONS, context_request, remember
from lasting import offer
from pydantic import Field

from mcp_generated import App, Audio, Context, Image, ToolError, UserMessage
from mcp_generated.v2026_07_28 import types as t

# One blue pixel, and half a millisecond of silence.
PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNQaDgAAAIkAWHdFJqQAAAAAElFTkSuQmCC"
)
WAV: Final = base64.b64decode("UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA")

# A schema with whatever JSON Schema 2020-12 has, which has to reach the client as it is.
PERSON: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

app = App(
    "everything",
    "Everything the conformance suite asks for.",
    version="1.0",
    capabilities={
        "logging": {},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "tools": {"listChanged": True},
    },
)


# ---- tools ----------------------------------------------------------------------------------------------------------


@app.tool()
async def test_simple_text() -> str:
    """Say something."""
    return "This is a simple text."


@app.tool()
async def test_image_content() -> Image:
    """Show a picture."""
    return Image(PNG)


@app.tool()
async def test_audio_content() -> Audio:
    """Play a sound."""
    return Audio(WAV)


@app.tool()
async def test_embedded_resource() -> t.EmbeddedResource:
    """Give a resource with what is in it."""
    return embedded("test://embedded-resource")


@app.tool()
async def test_multiple_content_types() -> list[str | Image | t.EmbeddedResource]:
    """Give a text, a picture and a resource."""
    return ["Here is some of everything:", Image(PNG), embedded("test://mixed-content-resource")]


@app.tool()
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool always fails.")


@app.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Tell how far it is."""
    for done in (0, 50, 100):
        await ctx.progress(done, total=100, message=f"{done} of 100")
        await asyncio.sleep(0.05)
    return "Done."


@app.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Log what it does."""
    for state in ("started", "processing", "completed"):
        await ctx.log("info", f"The tool has {state}.", "test")
        await asyncio.sleep(0.05)
    return "Done."


@app.tool()
async def test_logging_tool(ctx: Context) -> str:
    """Log one line, if the client wants to see it."""
    await ctx.log("info", "One line.", "test")
    return "Done."


@app.tool()
async def test_reconnection(ctx: Context) -> str:
    """End the stream before there is an answer, so that the client comes back for it."""
    ctx.close_sse_stream()
    await asyncio.sleep(0.1)
    return "You came back."


@app.tool(input_schema=PERSON)
async def json_schema_2020_12_tool(person: dict[str, Any]) -> str:
    """Take a person who can be reached."""
    return json.dumps(person)


@app.tool()
async def test_x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "") -> str:
    """Take an argument that a header of the request repeats."""
    return f"The region is {region!r}."


@app.tool()
async def test_trigger_tool_change() -> str:
    """Add a tool and remove it again."""
    app.add_tool(test_simple_text, "test_short_lived")
    app.remove_tool("test_short_lived")
    return "The list of tools has changed."


@app.tool()
async def test_trigger_prompt_change() -> str:
    """Add a prompt and remove it again."""
    app.add_prompt(test_simple_prompt, "test_short_lived")
    app.remove_prompt("test_short_lived")
    return "The list of prompts has changed."


app.middleware(remember)


@app.tool()
async def test_trigger_resource_update(ctx: Context) -> str:
    """Tell those who watch the watched resource that it has changed."""
    await app.server.notify_resource_updated(uri="test://watched-resource")
    return "The resource has changed."


for question in QUESTIONS:
    app.add_tool(question)

offer(app)


# ---- resources ------------------------------------------------------------------------------------------------------


@app.resource("test://static-text", mime_type="text/plain")
async def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text."


@app.resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """A picture that never changes."""
    return PNG


@app.resource("test://watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """A text that clients may watch."""
    return "This is watched."


@app.resource("test://template/{id}/data", mime_type="application/json")
async def template(id: str) -> dict[str, Any]:
    """The data of any id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


app.skills(Path(__file__).parents[2] / "examples" / "skills" / "skills")


# ---- prompts --------------------------------------------------------------------------------------------------------


@app.prompt()
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt."


@app.prompt()
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt that repeats its arguments.

    Args:
        arg1: The first of them.
        arg2: The second of them.
    """
    return f"The arguments are {arg1!r} and {arg2!r}."


@app.prompt("test_prompt_with_embedded_resource")
async def with_resource(resourceUri: str) -> list[UserMessage]:
    """A prompt with a resource in it.

    Args:
        resourceUri: What the resource is called.
    """
    return [UserMessage(embedded(resourceUri)), UserMessage("Say what this is.")]


@app.prompt()
async def test_prompt_with_image() -> list[UserMessage]:
    """A prompt with a picture in it."""
    return [UserMessage(Image(PNG)), UserMessage("Say which colour this is.")]


app.add_prompt(context_request, "test_input_required_result_prompt")


@app.completion()
def complete(ref: t.PromptReference | t.ResourceTemplateReference, argument: t.CompletionArgument) -> list[str]:
    return [value for value in ("paris", "park", "party", "test", "testing") if value.startswith(argument.value)]


def embedded(uri: str) -> t.EmbeddedResource:
    return t.EmbeddedResource(
        resource=t.TextResourceContents(uri=uri, mime_type="text/plain", text="This is the content of a resource.")
    )


if __name__ == "__main__":
    arguments = ArgumentParser(description=__doc__)
    arguments.add_argument("transport", nargs="?", choices=("http", "stdio"), default="http")
    arguments.add_argument("--port", type=int, default=8000)
    chosen = arguments.parse_args()
    logging.basicConfig(level=logging.INFO)
    app.run(chosen.transport, **({"port": chosen.port} if chosen.transport == "http" else {}))
