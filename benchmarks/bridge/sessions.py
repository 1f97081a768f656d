"""The memory of a bridge with 1,000 sessions over HTTP that share 10 processes, over rounds of calls.

    python benchmarks/bridge/sessions.py [--sessions 1000] [--rounds 10]

Each call has a text of its own, which its response must have. The figures are printed: they stand in docs/bridge.md.
"""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from bridge_load import Bridge, HttpClient, call, check, message_of, opened  # noqa: E402
from http_load import post  # noqa: E402
from peers import ROOT, environment  # noqa: E402

CONNECTIONS: Final = 20


async def calls(child: Bridge, client: HttpClient, places: Sequence[tuple[int, list[str]]]) -> None:
    """Make a call in each of some sessions, with a number for each."""
    for number, headers in places:
        response = await client.send(post(child.port, call(number), *headers))
        check(message_of(*response), number)


async def measure(child: Bridge, sessions: int, rounds: int) -> list[float]:
    """Open sessions, and return the MiB of the bridge after each round of one call in each session."""
    headers = [await opened(child.port) for _ in range(sessions)]
    clients = [await HttpClient.connect(child.port) for _ in range(CONNECTIONS)]
    figures: list[float] = []
    for turn in range(rounds):
        places = list(enumerate(headers, turn * sessions))
        await asyncio.gather(
            *(calls(child, client, places[first::CONNECTIONS]) for first, client in enumerate(clients))
        )
        figures.append(child.memory("VmRSS"))
    return figures


def main() -> None:
    """Measure, and print a line for each round."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    own = environment("ours-http", "--editable", f"{ROOT}[http]")
    echo = (own, HERE.parent / "servers" / "stdio_bare_server.py")
    command = (own, "-m", "mcp_runtime.bridge", "--http", "127.0.0.1:PORT", "--shared", "10", "--", *echo)
    with Bridge(command) as child:
        for turn, memory in enumerate(asyncio.run(measure(child, options.sessions, options.rounds)), 1):
            print(f"after {turn * options.sessions:,} calls: {memory:.1f} MiB", flush=True)


main()
