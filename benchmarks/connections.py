"""What our HTTP server costs beside a bare ASGI application with the same answer, at 1 to 1,000 connections.

    python benchmarks/connections.py [--turns 15]

One process of each, both up at the same time; turns alternate. Every connection sends the next request after each
response: a call of a tool of 2026-07-28 that returns its text. The bare application reads the body, parses it, and
writes what ours answers, in uvicorn with uvloop and httptools. Ours is `App.run("http")`. A ratio is the median of the
ratios of the turns, so that what else the machine does counts for both. Writes benchmarks/results/connections.md.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from http_load import HttpChild, HttpLoad, call_of, calls, connect
from measures.machine import measured
from measures.rounds import Rounds, write_results
from stdio_table import markdown

RESULTS: Final = Path(__file__).resolve().parent / "results" / "connections.md"
MEASURES: Final = ("products/mcp_products/fast", "runtime/mcp_runtime/transports/http_server")
CONNECTIONS: Final = (1, 10, 100, 1_000)
CALLS: Final = 3_000  # Of a turn.
MOST: Final = {"cpu": 1.4, "p99": 1.2}
OURS: Final = """
import sys
from mcp_generated import App
from mcp_generated.http import HTTPLimits

app = App("echo")


@app.tool
async def echo(text: str) -> str:
    return text


app.run("http", port=int(sys.argv[1]), limits=HTTPLimits(max_connections_per_address=5_000))
"""
BARE: Final = """
import sys
import uvicorn
from pydantic_core import from_json, to_json


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body += message["body"]
        more = message.get("more_body", False)
    request = from_json(body)
    text = request["params"]["arguments"]["text"]
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "echo", "version": "0.1.0"}}
    content = [{"type": "text", "text": text}]
    structured = {"result": text}
    result = {"_meta": meta, "resultType": "complete", "content": content, "structuredContent": structured}
    answer = to_json({"jsonrpc": "2.0", "id": request["id"], "result": result})
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": answer})


uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="warning", backlog=4096)
"""
Turn = Mapping[str, float]


async def answer(port: int) -> bytes:
    """Return the body of the response to a call."""
    connection = await connect(port)
    _, body = await connection.send(await call_of(connection, port, True))
    connection.transport.close()
    return body


def ratio(turns: Mapping[str, list[Turn]], name: str) -> float:
    """Return the median of the ratios of all turns."""
    pairs = zip(turns["ours"], turns["bare"], strict=True)
    return statistics.median(ours[name] / bare[name] for ours, bare in pairs)


def row(connections: int, turns: Mapping[str, list[Turn]]) -> list[str]:
    """Return the cells of a number of connections."""
    cells = [f"{connections:,}"]
    for name, text in (("cpu", "{:.1f}"), ("p99", "{:.2f}")):
        own, base = (statistics.median(turn[name] for turn in turns[kind]) for kind in ("ours", "bare"))
        found = ratio(turns, name)
        met = "yes" if found <= MOST[name] else "no"
        cells += [text.format(own), text.format(base), f"{found:.2f}", met]
    return cells


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=15)
    options = parser.parse_args()
    found: dict[int, dict[str, list[Turn]]] = {number: {"ours": [], "bare": []} for number in CONNECTIONS}
    rounds = Rounds(options.turns)
    with HttpChild([sys.executable, "-c", OURS]) as ours, HttpChild([sys.executable, "-c", BARE]) as bare:
        children = {"ours": ours, "bare": bare}
        answers = {asyncio.run(answer(child.port)) for child in children.values()}
        assert len(answers) == 1, answers
        for number in rounds:
            for connections, turns in found.items():
                load = HttpLoad(0, 0, max(connections, 200), max(2 * connections, CALLS), 0, 0)
                for kind, child in children.items():
                    turn = asyncio.run(calls(child, load, connections, True))
                    if number:
                        turns[kind].append(turn)
    text = f"""# Our HTTP server beside a bare ASGI application

Calls of version 2026-07-28 with the same answer: µs of CPU time of the server for a call, and the p99 in ms, as medians
of {rounds.counted} turns of {CALLS:,} calls. A ratio is the median of those of the turns; it should be at most
{MOST["cpu"]:g} for the CPU time, and {MOST["p99"]:g} for the p99. Python {sys.version.split()[0]}.
{measured()}

"""
    head = ["connections", "CPU, ours", "bare", "ratio", f"≤ {MOST['cpu']:g}"]
    head += ["p99, ours", "bare", "ratio", f"≤ {MOST['p99']:g}"]
    write_results(RESULTS, text + markdown(head, [row(*item) for item in found.items()]) + "\n", MEASURES)
    print(RESULTS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
