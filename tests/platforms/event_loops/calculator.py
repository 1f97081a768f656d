"""A server in a program of anyio, with the event loop that the argument names: trio or asyncio."""

from __future__ import annotations

import sys

import anyio
import anyio.from_thread

from mcp_generated import App, Context

app = App("calculator")


@app.tool()
def add(a: int, b: int) -> int:
    return a + b


@app.tool()
async def by_anyio(text: str, ctx: Context) -> str:
    """Use anyio in a handler, as code does that runs on any event loop."""
    answers: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(ctx.report_progress, 1, 2)
        group.start_soon(anyio.sleep, 0)
    with anyio.move_on_after(0):
        await anyio.sleep_forever()
        answers.append("not cancelled")
    return " ".join([text, *answers])


async def main() -> None:
    """Serve, and let a plain `def` handler use what belongs to the program's event loop."""
    token = anyio.lowlevel.current_token()
    sending, receiving = anyio.create_memory_object_stream[str](1)

    @app.tool()
    def through_program(text: str) -> str:
        anyio.from_thread.run(sending.send, text, token=token)
        return anyio.from_thread.run(receiving.receive, token=token)

    with sending, receiving:
        await app.run_async("stdio")


if __name__ == "__main__":
    anyio.run(main, backend=sys.argv[1])
