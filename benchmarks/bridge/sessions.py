"""The memory of a bridge whose 1,000 sessions over HTTP share 10 processes: while they open, over rounds of calls, and
after they have ended, twice. With --own, each session has a process of its own, and 10 sessions are open at a time.

    python benchmarks/bridge/sessions.py [--sessions 1000] [--rounds 5] [--own]

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
PROCESSES: Final = 10


async def calls(child: Bridge, client: HttpClient, places: Sequence[tuple[int, list[str]]]) -> None:
    """Make a call in each of some sessions, with a number for each."""
    for number, headers in places:
        response = await client.send(post(child.port, call(number), *headers))
        check(message_of(*response), number)


async def end(child: Bridge, headers: Sequence[str]) -> None:
    """End a session."""
    client = await HttpClient.connect(child.port)
    lines = ["DELETE /mcp HTTP/1.1", f"Host: 127.0.0.1:{child.port}", *headers]
    await client.send("\r\n".join([*lines, "", ""]).encode())
    client.close()


async def measure(child: Bridge, sessions: int, rounds: int) -> None:
    """Open sessions, make rounds of a call in each of them, end them, and print the MiB of the bridge meanwhile."""
    number = 0

    def show(when: str) -> None:
        print(f"{when}: {child.memory('VmRSS'):.1f} MiB", flush=True)

    for cycle in ("first", "second"):
        headers: list[list[str]] = []
        for count in (sessions // 10, sessions // 2, sessions):
            opening = [await opened(child.port) for _ in range(count - len(headers))]
            headers += opening
            number = await one_round(child, opening, number)
            show(f"{cycle} time, {count:,} sessions with a call each")
        for _ in range(rounds):
            number = await one_round(child, headers, number)
        show(f"{cycle} time, after {number:,} calls")
        for own in headers:
            await end(child, own)
        show(f"{cycle} time, after all sessions have ended")


async def measure_own(child: Bridge, sessions: int) -> None:
    """Open and end sessions with processes of their own, and print the MiB of the bridge ten times."""
    for number in range(0, sessions, PROCESSES):
        headers = await asyncio.gather(*(opened(child.port) for _ in range(PROCESSES)))
        await one_round(child, headers, number)
        count = number + PROCESSES
        if count % max(sessions // 10, 1) == 0:
            print(f"{count:,} sessions, {PROCESSES} of them open: {child.memory('VmRSS'):.1f} MiB", flush=True)
        for own in headers:
            await end(child, own)


async def one_round(child: Bridge, headers: Sequence[list[str]], number: int) -> int:
    """Make a call in each session, several at a time, and return the number of the next one."""
    clients = [await HttpClient.connect(child.port) for _ in range(CONNECTIONS)]
    places = list(enumerate(headers, number))
    await asyncio.gather(*(calls(child, client, places[first::CONNECTIONS]) for first, client in enumerate(clients)))
    for client in clients:
        client.close()
    return number + len(places)


def main() -> None:
    """Measure."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--own", action="store_true")
    options = parser.parse_args()
    own = environment("ours-http", "--editable", f"{ROOT}[http]")
    echo = (own, HERE.parent / "servers" / "stdio_bare_server.py")
    shared = () if options.own else ("--shared", str(PROCESSES))
    with Bridge((own, "-m", "mcp_runtime.bridge", "--http", "127.0.0.1:PORT", *shared, "--", *echo)) as child:
        if options.own:
            asyncio.run(measure_own(child, options.sessions))
        else:
            asyncio.run(measure(child, options.sessions, options.rounds))


main()
