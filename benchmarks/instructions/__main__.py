"""Count the instructions of calls, here and in an earlier checkout: other programs do not change them.

    python benchmarks/instructions --before DIR [--client NAME …] [--runs 3] [--windows 5] [--calls 100]

DIR is a checkout with a virtual environment in .venv that has the same packages. README's server runs under valgrind,
side by side here and there, and answers a client that waits for each answer, or for all of 16. Counted is what the
process executes between one call and another, `windows` times, after as many calls that are not counted: neither its
start nor its end counts. A figure is the median of all windows of all runs, divided by their calls.

What varies is fixed: hashes, addresses, compiled modules, the event loop (that of asyncio), and waits of the server,
see servers/counted_server.py. It takes some twenty minutes, and writes benchmarks/results/instructions.md, except with
--client.
"""

from __future__ import annotations

import argparse
import compileall
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from instructions.counted import (  # The folder above has to be found first.
    ROOT,
    Client,
    CountedServer,
    Message,
    opened,
    over_stdio,
    serving_port,
    words_of,
)
from measures.machine import measured
from measures.rounds import write_results
from stdio_table import markdown

RESULTS: Final = ROOT / "benchmarks" / "results" / "instructions.md"
MOST: Final = 1.01  # What a call may cost, of what it cost before.
CLIENTS: Final = (
    *(Client("stdio", revision) for revision in ("2025-06-18", "2026-07-28")),
    Client("HTTP, session", "2025-06-18"),
    *(Client("HTTP, stateless", revision) for revision in ("2025-06-18", "2026-07-28")),
)
TOOLS: Final = {"add": "plain function", "add_soon": "coroutine"}
AT_ONCE: Final = {"stdio": (1, 16)}  # One by one over HTTP.

Counts = dict[str, list[float]]  # The figures of windows by row.


def packages(checkout: Path) -> str:
    """Return the packages of a checkout's environment with their versions."""
    program = "import importlib.metadata as m; print(sorted((d.name, d.version) for d in m.distributions()))"
    python = checkout / ".venv" / "bin" / "python"
    return subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout


def measured_costs(checkout: Path, client: Client, windows: int, calls: int) -> Counts:
    """Return `measure`, again if the machine has stood still for so long that a connection was closed."""
    for _ in range(3):
        try:
            return measure(checkout, client, windows, calls)
        except ConnectionError as error:
            print(f"{checkout}, {client}: {error}", file=sys.stderr)
    raise SystemExit(f"{checkout}, {client}: the machine stands still too often")


def measure(checkout: Path, client: Client, windows: int, calls: int) -> Counts:
    """Return what the calls of a client cost a server of a checkout, in each window."""
    words, port = words_of(client.transport)
    found: Counts = {}
    numbers = count(1)
    with CountedServer(checkout, words) as server:
        is_stdio = client.transport == "stdio"
        if is_stdio:
            exchange = over_stdio(server)
            exchange([*client.opening(), *(client.call(tool, 0) for tool in TOOLS)])
        else:
            exchange = opened(serving_port(checkout, port), client, [*TOOLS])
        server.begin()
        for tool, kind in TOOLS.items():
            for together in AT_ONCE.get(client.transport, (1,)):
                costs = found[f"{client.transport}, {client.revision}, {kind}, {together} at once"] = []
                for _ in range(windows):
                    call(client, exchange, tool, [next(numbers) for _ in range(calls)], together)
                server.counted()
                for _ in range(windows):
                    call(client, exchange, tool, [next(numbers) for _ in range(calls)], together)
                    costs.append(server.counted() / calls)
    return found


def call(
    client: Client,
    exchange: Callable[[Sequence[Message]], list[Message]],
    tool: str,
    numbers: Sequence[int],
    together: int,
) -> None:
    """Make a call for each number, so many at once, and check the answers."""
    for start in range(0, len(numbers), together):
        some = numbers[start : start + together]
        answers = exchange([client.call(tool, number) for number in some])
        sums = {answer["id"]: answer["result"]["structuredContent"] for answer in answers}
        if sums != {number: {"result": number + 1} for number in some}:
            raise SystemExit(f"{client}: {answers}")


def rows(before: Counts, now: Counts) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield for each row its name, both medians, their ratio, and how much the windows of one checkout differ."""
    for name, figures in now.items():
        first, second = statistics.median(before[name]), statistics.median(figures)
        spread = max(_spread(before[name]), _spread(figures))
        yield name, first, second, second / first, spread


def _spread(figures: Sequence[float]) -> float:
    """Return how far the middle half of some figures reaches, as a part of their median."""
    low, middle, high = statistics.quantiles(figures, n=4, method="inclusive")
    return (high - low) / middle


def main() -> None:
    """Count, print the table, and say which rows cost too much."""
    parser = argparse.ArgumentParser(prog="python benchmarks/instructions", description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="the earlier checkout")
    parser.add_argument("--client", action="append", default=[], help="those whose name begins so")
    parser.add_argument("--runs", type=int, default=3, help="fresh processes of each checkout")
    parser.add_argument("--windows", type=int, default=5, help="how often a process is counted")
    parser.add_argument("--calls", type=int, default=96, help="calls that are counted together")
    options = parser.parse_args()
    before = options.before.resolve()
    if packages(before) != packages(ROOT):
        raise SystemExit(f"the environments of {before} and {ROOT} have different packages")
    for checkout in (before, ROOT):
        for name in ("runtime", "products", "generated"):
            if (checkout / name).is_dir():
                compileall.compile_dir(checkout / name, quiet=1)
    chosen = [
        client
        for client in CLIENTS
        if not options.client
        or any(f"{client.transport}, {client.revision}".startswith(name) for name in options.client)
    ]
    costs: tuple[Counts, Counts] = ({}, {})
    with ThreadPoolExecutor(2) as pool:
        for run in range(options.runs):
            for client in chosen:
                jobs = [
                    pool.submit(measured_costs, checkout, client, options.windows, options.calls)
                    for checkout in (before, ROOT)
                ]
                for total, job in zip(costs, jobs, strict=True):
                    for name, figures in job.result().items():
                        total.setdefault(name, []).extend(figures)
                print(f"run {run + 1} of {options.runs}: {client}", file=sys.stderr, flush=True)
    table = [*rows(*costs)]
    heads = ("calls of README's server", "before", "now", "now / before", "spread")
    cells = [
        (name, f"{first:,.0f}", f"{second:,.0f}", f"{ratio:.3f}", f"{spread:.2%}")
        for name, first, second, ratio, spread in table
    ]
    text = f"{_caption(before, options.runs, options.windows, options.calls)}\n{markdown(heads, cells)}\n"
    print(text)
    if not options.client:
        write_results(RESULTS, text)
    if above := [name for name, _, _, ratio, _ in table if ratio > MOST]:
        raise SystemExit(f"more than {MOST} of before: {'; '.join(above)}")


def _caption(before: Path, runs: int, windows: int, calls: int) -> str:
    commit = subprocess.run(
        ["git", "-C", before, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True
    )
    version = ".".join(map(str, sys.version_info[:3]))
    return f"""# Instructions of a call

Medians of {runs} processes of each checkout, each counted {windows} times for {calls} calls, by valgrind, after as many
that are not counted: `python benchmarks/instructions --before DIR`. Before is the commit {commit.stdout.strip()}.
The spread is how far the middle half of the counts of one checkout reaches. Python {version}.
{measured()}
"""


if __name__ == "__main__":
    main()
