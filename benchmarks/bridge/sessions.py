"""The memory of a bridge whose 1,000 sessions over HTTP share 10 processes: while they open, over rounds of calls, and
after they have ended, twice. With --own, each session has a process of its own, and 10 sessions are open at a time.

    python benchmarks/bridge/sessions.py [--sessions 1000] [--rounds 5]; with --own [--sessions 4000]

Each call has a text of its own, which its response must have. The tables are also written to
benchmarks/results/bridge_sessions.md, except with other numbers than these.
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
from measures.machine import measured  # noqa: E402
from measures.rounds import write_results  # noqa: E402
from peers import ours_with  # noqa: E402
from stdio_table import markdown  # noqa: E402

CONNECTIONS: Final = 20
PROCESSES: Final = 10
ROUNDS: Final = 5
DEFAULTS: Final = {False: 1000, True: 4000}  # Sessions, without and with --own.
RESULTS: Final = HERE.parent / "results" / "bridge_sessions.md"


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


async def measure(child: Bridge, sessions: int, rounds: int) -> list[list[str]]:
    """Open sessions, make rounds of a call in each of them, and end them, twice. Return the MiB of the bridge."""
    number, rows = 0, dict[str, list[str]]()

    def note(when: str) -> None:
        rows.setdefault(when, []).append(f"{child.memory('VmRSS'):.1f}")
        print(when, rows[when][-1], flush=True)

    for cycle in range(2):
        headers: list[list[str]] = []
        for count in (sessions // 10, sessions // 2, sessions):
            opening = [await opened(child.port) for _ in range(count - len(headers))]
            headers += opening
            number = await one_round(child, opening, number)
            note(f"{count:,} sessions")
        for _ in range(rounds):
            number = await one_round(child, headers, number)
        note(f"after {number // (cycle + 1):,} calls")
        for own in headers:
            await end(child, own)
        note("after all have ended")
    return [[when, *figures] for when, figures in rows.items()]


async def measure_own(child: Bridge, sessions: int) -> list[list[str]]:
    """Open and end sessions with processes of their own. Return the MiB of the bridge, up to eight times."""
    rows: list[list[str]] = []
    for number in range(0, sessions, PROCESSES):
        headers = await asyncio.gather(*(opened(child.port) for _ in range(PROCESSES)))
        await one_round(child, headers, number)
        count = number + PROCESSES
        if count % max(sessions // 8, 1) == 0:
            rows.append([f"{count:,}", f"{child.memory('VmRSS'):.1f}"])
            print(*rows[-1], flush=True)
        for own in headers:
            await end(child, own)
    return rows


def write(heading: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write the section of one of both measurements; the other one stays as it is."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else "# Memory of a bridge\n"
    before, _, section = text.partition(f"\n## {heading}\n")
    _, found, after = section.partition("\n## ")
    section = f"\n## {heading}\n\n{measured()}\n\n{markdown(heads, rows)}\n"
    write_results(RESULTS, f"{before}{section}{found}{after}", ["products/mcp_products/relay"])


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
    parser.add_argument("--sessions", type=int)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--own", action="store_true")
    options = parser.parse_args()
    own = ours_with("http")
    echo = (own, HERE.parent / "servers" / "stdio_bare_server.py")
    shared = () if options.own else ("--shared", str(PROCESSES))
    sessions = options.sessions or DEFAULTS[options.own]
    writes = sessions == DEFAULTS[options.own] and options.rounds == ROUNDS
    with Bridge((own, "-m", "mcp_products.relay.bridge", "--http", "127.0.0.1:PORT", *shared, "--", *echo)) as child:
        if options.own:
            rows = asyncio.run(measure_own(child, sessions))
        else:
            rows = asyncio.run(measure(child, sessions, options.rounds))
    if writes and options.own:
        write(f"A process for each session, {PROCESSES} open at a time", ["sessions", "MiB"], rows)
    elif writes:
        first, again = f"the first {sessions:,} sessions", f"{sessions:,} more, after those have ended"
        write(f"{PROCESSES} shared processes", ["MiB", first, again], rows)


main()
