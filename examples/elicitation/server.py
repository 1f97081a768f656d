"""A tool that uses elicitation and sampling, for clients of every version that support them.

Run it: `python examples/elicitation/server.py`. With multi round-trip requests (2026-07-28) the handler runs again from
its start after each input response; side effects, such as taking a number, therefore go through `ctx.once`.
"""

from __future__ import annotations

import itertools
from typing import Final

from mcp_generated import App, Context
from mcp_generated.v2026_07_28 import types as t

app = App("table", "Books a table, and asks for the details.", version="1.0")
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
    """Book a table. The user enters the details.

    Args:
        restaurant: Its name.
    """
    number = await ctx.once("number", lambda: next(numbers))
    form_result = await ctx.elicit(FORM)
    if form_result.action != "accept" or form_result.content is None:
        return f"{number}: nothing was booked ({form_result.action})"
    booking = f"{number}: {restaurant}, {form_result.content['guests']} guests, {form_result.content['name']}"
    if "sampling" not in ctx.capabilities:
        return booking
    message = t.SamplingMessage(role="user", content=t.TextContent(text=f"Confirm in one friendly line: {booking}"))
    sampling_result = await ctx.sample(messages=[message], max_tokens=100)
    return f"{booking}\n{getattr(sampling_result.content, 'text', '')}"


if __name__ == "__main__":
    app.run("stdio")
