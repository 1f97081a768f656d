"""One tool that asks its user and the client's model, written once; clients of every revision can answer it.

Run it: `python examples/asking/server.py`. A client without a handshake makes the tool run again with each answer, from
its start; so what must happen once, such as taking a number, goes through `ctx.once`.
"""

from __future__ import annotations

import itertools
from typing import Final

from mcp_generated import App, Context
from mcp_generated.v2026_07_28 import types as t

app = App("table", "Books a table, and asks for what it has to know.", version="1.0")
numbers = itertools.count(1)

FORM: Final = t.ElicitRequestFormParams.model_validate(
    {
        "message": "For how many, and under which name?",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 50},
                "guests": {"type": "integer", "minimum": 1, "maximum": 12},
            },
            "required": ["name", "guests"],
        },
    }
)


@app.tool(annotations={"destructiveHint": False, "openWorldHint": False})
async def book(restaurant: str, ctx: Context) -> str:
    """Book a table; the user is asked for the rest.

    Args:
        restaurant: Its name.
    """
    number = await ctx.once("number", lambda: next(numbers))
    said = await ctx.elicit(FORM)
    if said.action != "accept" or said.content is None:
        return f"{number}: nothing was booked ({said.action})"
    booking = f"{number}: {restaurant}, {said.content['guests']} guests, {said.content['name']}"
    if "sampling" not in ctx.capabilities:
        return booking
    asked = t.SamplingMessage(role="user", content=t.TextContent(text=f"Confirm in one friendly line: {booking}"))
    answer = await ctx.sample(messages=[asked], max_tokens=100)
    return f"{booking}\n{getattr(answer.content, 'text', '')}"


if __name__ == "__main__":
    app.run("stdio")
