"""A server of the newest revision with what the suite's has no need of: pages, a call that lasts, pages for the user to
visit, and a model that uses tools. Run it: `python tests/conformance/small_server.py stdio`, or `… http --port 8000`.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import ArgumentParser
from typing import Final

from mcp_generated import App, Context
from mcp_generated.v2026_07_28 import types as t

app = App("small", version="1.0", page_size=2)
_COUNTER: Final = t.Tool(
    name="count_letters",
    input_schema=t.ToolInputSchema.model_validate({"type": "object", "properties": {"word": {"type": "string"}}}),
)

cancelled = 0


@app.tool()
async def wait(ctx: Context) -> str:
    """Last until it is cancelled."""
    global cancelled
    await ctx.progress(0, total=1)
    try:
        await asyncio.Event().wait()
    finally:
        cancelled += 1
    return "never"


@app.tool()
async def visit_page(ctx: Context) -> str:
    """Ask the user to visit a page."""
    answer = await ctx.elicit(t.ElicitRequestURLParams(message="Please agree.", url="https://example.com/agree"))
    return answer.action


@app.tool()
async def research(question: str, ctx: Context) -> str:
    """Ask the client's model, and let it use a tool until it has an answer."""
    messages = [t.SamplingMessage(role="user", content=t.TextContent(text=question))]
    while True:
        answer = await ctx.sample(messages=messages, max_tokens=100, tools=[_COUNTER])
        blocks = answer.content if isinstance(answer.content, list) else [answer.content]
        uses = [block for block in blocks if isinstance(block, t.ToolUseContent)]
        if not uses:
            return " ".join(block.text for block in blocks if isinstance(block, t.TextContent))
        results: list[t.SamplingMessageContentBlock] = []
        for use in uses:
            length = t.TextContent(text=str(len(str(use.input["word"]))))
            results.append(t.ToolResultContent(tool_use_id=use.id, content=[length]))
        messages += [
            t.SamplingMessage(role="assistant", content=blocks),
            t.SamplingMessage(role="user", content=results),
        ]


@app.resource("small://status")
def status() -> dict[str, int]:
    """How many calls were cancelled."""
    return {"cancelled": cancelled}


@app.resource("small://one")
def one() -> str:
    """The first of two more."""
    return "one"


@app.resource("small://two")
def two() -> str:
    """The second of two more."""
    return "two"


for kind in ("a", "b", "c"):

    @app.resource(f"small://{kind}/{{id}}", name=kind)
    def templated(id: str) -> str:
        """A template."""
        return id

    @app.prompt(kind)
    def prompt() -> str:
        """A prompt."""
        return "Say something."


if __name__ == "__main__":
    arguments = ArgumentParser(description=__doc__)
    arguments.add_argument("transport", choices=("http", "stdio"))
    arguments.add_argument("--port", type=int, default=0)
    chosen = arguments.parse_args()
    logging.basicConfig(level=logging.INFO)
    app.run(chosen.transport, **({"port": chosen.port} if chosen.transport == "http" else {}))
