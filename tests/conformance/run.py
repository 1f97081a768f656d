"""Scenarios of the official conformance suite go in, each runs against what is ours, and a line says how.

Run it: `python tests/conformance/run.py`, or `… run.py --side client --only sse-retry`. A run passes if it has no
failure, no warning, an exit code of 0 and at least one success, and what was skipped stands in known.toml with its
reason. The exit code is 0 if all passed but those that stand there, and all of those did fail.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from authorization import CLIENT, agree
from scorecard import scorecard
from suite import HERE, SIDES, Run, Suite, Verdict, batches, is_expected_failure, settled

PROGRAMS: Final = {"server": "server.py", "authorization": "authorization.py"}
STARTING: Final = 30.0  # Seconds a server may take to start.


def options() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--revision", action="append", help="such as 2025-11-25; may be given several times")
    parser.add_argument("--only", action="append", help="part of a scenario's name; may be given several times")
    parser.add_argument("--install", action="store_true", help="install the suite, and exit")
    parser.add_argument("--jobs", type=int, default=3, help="how many run at a time; clients wait for seconds")
    parser.add_argument("--url", help="origin of a server that runs already, such as a proxy in front of several")
    parser.add_argument("--balanced", action="store_true", help="put nginx before four servers, which share a Redis")
    parser.add_argument("--bridge", action="store_true", help="put a bridge before each server")
    parser.add_argument("--scorecard", type=Path, help="write the scorecard of `tier-check` into this file")
    parser.add_argument("--times", type=int, default=1, help="how often; the results are compared check by check")
    return parser.parse_args()


@asynccontextmanager
async def serving(*words: str, port: int) -> AsyncIterator[str]:
    """The origin of a server of its own, which a program of Python serves at a port."""
    process = await asyncio.create_subprocess_exec(sys.executable, *words)
    try:
        async with asyncio.timeout(STARTING):
            while not await _answers(port):
                if process.returncode is not None:
                    raise RuntimeError(f"the server ended with {process.returncode} as soon as it had started")
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def free_port() -> int:
    """A port of this machine that nobody has yet."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def balanced_origin() -> Iterator[str]:
    """The origin of nginx before four servers that share a Redis, without stickiness."""
    sys.path.insert(0, str(HERE.parent))
    from support.processes import end_shared
    from support.stores.balancers import balanced
    from support.stores.homes import place_of

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)  # The workers of nginx run as another user.
        try:
            with balanced(HERE / PROGRAMS["server"], place_of("redis", Path(folder)), "nginx", Path(folder)) as running:
                yield running.origin
        finally:
            end_shared()


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def origin_of(stack: AsyncExitStack, side: str, bridge: bool) -> str:
    """The origin of a server that ends with the stack, or of a bridge to it."""
    port = free_port()
    origin = await stack.enter_async_context(serving(str(HERE / PROGRAMS[side]), "--port", str(port), port=port))
    if not bridge:
        return origin
    port = free_port()
    words = ("-m", "mcp_products.relay.bridge", "--http", f"127.0.0.1:{port}", f"{origin}/mcp")
    return await stack.enter_async_context(serving(*words, port=port))


async def work(suite: Suite, queue: asyncio.Queue[list[Run]], verdicts: dict[Run, Verdict], chosen: Namespace) -> None:
    """Run the batches in the queue, one after the other; what needs a server gets one that is of this worker alone, or
    that of a URL."""
    async with AsyncExitStack() as stack:
        origins: dict[str, str] = {} if chosen.url is None else {"server": chosen.url}
        while not queue.empty():
            batch = queue.get_nowait()
            side = batch[0].side
            if side in PROGRAMS and side not in origins:
                origins[side] = await origin_of(stack, side, chosen.bridge)
            began = time.monotonic()
            found = await suite.verdicts(batch, *target(side, origins.get(side, "")), person=agree)
            took = (time.monotonic() - began) / len(batch)
            for run, verdict in found.items():
                verdicts[run] = settled(run, verdict)
                show(run, verdicts[run], took)


def show(run: Run, verdict: Verdict, took: float) -> None:
    """Print how a run went."""
    word = "FAILED" if verdict.problems else "known " if is_expected_failure(run) else "ok    "
    print(f"{word} {run}: {verdict.counted()} ({took:.1f} s)", flush=True)
    for problem in verdict.problems:
        print(f"         {problem}", flush=True)


def target(side: str, origin: str) -> tuple[str, ...]:
    """What is tested, as options of the suite."""
    match side:
        case "server":
            return "--url", f"{origin}/mcp"
        case "client":
            return "--command", f"{sys.executable} {HERE / 'client.py'}"
        case _:
            return "--url", origin, "--client-id", CLIENT, "--port", str(free_port())


async def once(suite: Suite, runs: list[Run], chosen: Namespace) -> dict[Run, Verdict]:
    queue: asyncio.Queue[list[Run]] = asyncio.Queue()
    for batch in batches(runs) if chosen.only is None else ([run] for run in runs):
        queue.put_nowait(batch)
    verdicts: dict[Run, Verdict] = {}
    async with asyncio.TaskGroup() as group:
        for _ in range(chosen.jobs):
            group.create_task(work(suite, queue, verdicts, chosen))
    failed = sum(bool(verdict.problems) for verdict in verdicts.values())
    print(f"{len(verdicts) - failed} passed, {failed} failed", flush=True)
    return verdicts


def is_chosen(run: Run, chosen: Namespace) -> bool:
    return (
        (chosen.side is None or run.side == chosen.side)
        and (run.side == "server" or not (chosen.bridge or chosen.balanced))
        and (chosen.revision is None or run.revision in chosen.revision)
        and (chosen.only is None or any(part in run.name for part in chosen.only))
    )


def main() -> int:
    chosen = options()
    try:
        suite = Suite.installed()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"the suite cannot be installed: {error}")
        return 2
    if chosen.install:
        return 0
    runs = [run for run in suite.runs() if is_chosen(run, chosen)]
    if not runs:
        print("there is no such scenario")
        return 2
    with ExitStack() as stack:
        if chosen.balanced:
            chosen.url = stack.enter_context(balanced_origin())
        rounds = [asyncio.run(once(suite, runs, chosen)) for _ in range(chosen.times)]
    if chosen.scorecard is not None:
        card = scorecard(rounds[-1], suite.requirements)
        chosen.scorecard.write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
        implied = card["implied_tier"]
        print(f"{chosen.scorecard}: tier {implied['tier']}; {', '.join(implied['tier1_blockers'])}")
    differing = sorted(run for run in runs if len({verdicts[run] for verdicts in rounds}) > 1)
    for run in differing:
        print(f"not the same each time: {run}")
    return int(bool(differing) or any(verdict.problems for verdicts in rounds for verdict in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
