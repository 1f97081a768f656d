"""Write the tables and figures of README.md and docs/ from benchmarks/results.

    python benchmarks/tables.py [--check]

A page has a place for what is written, with its name: `<!-- table: NAME -->` or, within a sentence,
`<!-- figure: NAME -->`, and `<!-- end -->` after it. TEXTS says what comes there. With `--check` nothing is written,
and the exit code is 1 if a page is out of date.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT / "benchmarks" / "stores"))

import capacity  # noqa: E402
from stdio_table import markdown  # noqa: E402

PLACE: Final = re.compile(r"(<!-- (table|figure): ([\w-]+) -->)(.*?)(<!-- end -->)", re.S)
PEER: Final = "MCPServer (mcp 2.3.0)"
APP: Final = "App, plain def"


@dataclass(frozen=True)
class Table:
    """A table of a file of results: its heads and its rows."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def row(self, *names: str) -> Mapping[str, str]:
        """Return the cells of the row that begins with these, by head."""
        return dict(zip(self.heads, self.cells(*names), strict=True))

    def cells(self, *names: str) -> Sequence[str]:
        """Return the cells of the row that begins with these. Raises LookupError without exactly one."""
        found = [row for row in self.rows if tuple(row[: len(names)]) == names]
        if len(found) != 1:
            raise LookupError(f"{len(found)} rows begin with {' | '.join(names)}")
        return found[0]


def read(file: str, heading: str = "") -> Table:
    """Return the first table of a file of results, or the first one below a heading."""
    return parsed(text_of(file, heading))


def text_of(file: str, heading: str = "") -> str:
    """Return the Markdown of a table of a file of results."""
    text = (RESULTS / file).read_text(encoding="utf-8")
    if heading:
        _, found, text = text.partition(f"\n## {heading}\n")
        if not found:
            raise LookupError(f"{file} has no heading {heading!r}")
    match = re.search(r"^\|.*\n(?:\|.*\n)+", text, re.M)
    if match is None:
        raise LookupError(f"{file} has no table {heading}")
    return match[0].rstrip()


def copied(file: str, heading: str) -> str:
    """Return the Markdown of a table of a file of results, with its links as a page in docs/ has them."""
    return text_of(file, heading).replace("](../../docs/", "](")


def parsed(text: str) -> Table:
    """Return a table of Markdown."""
    heads, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in _padded(text))
    return Table(heads, [[*row, *[""] * (len(heads) - len(row))] for row in rows])


def _padded(text: str) -> Iterator[str]:
    """Yield the lines of a table, with a space in each cell that is empty."""
    for line in text.splitlines():
        cells = line.strip().removeprefix("|").removesuffix("|").split("|")
        yield " | ".join(cell.strip() or " " for cell in cells)


def day(file: str) -> str:
    """Return the day of a file of results, such as 3 July 2026."""
    results = tomllib.loads((RESULTS / "results.toml").read_text(encoding="utf-8"))
    measured = date.fromisoformat(results[file]["day"])
    return f"{measured.day} {measured:%B %Y}"


def number(cell: str) -> float:
    """Return the number of a cell."""
    return float(cell.replace(",", ""))


# ---- README ----------------------------------------------------------------------------------------------------------

README_ROWS: Final = {
    "stdio: start to first response, ms CPU": "start, ms CPU",
    "stdio: calls per second, one after another": "sequential, calls/s",
    "stdio: pipelined calls per second": "pipelined, calls/s",
    "stdio: peak memory, MiB": "pipelined, MiB",
    "HTTP: µs CPU a call": "HTTP, µs CPU a call",
}


def readme() -> str:
    """Return README's App beside the official SDK."""
    table, rows = read("readme_server.md"), list[list[str]]()
    for title, value in README_ROWS.items():
        ours, theirs = table.row(value, APP), table.row(value, PEER)
        both = (f"{number(row['median']):,.0f}" for row in (ours, theirs))
        rows.append([title, *both, f"{number(ours['ratio']):.2g}"])
    return markdown(["", "mcp-codegen", "`mcp` 2.3.0", "ratio"], rows)


def readme_class(value: str) -> str:
    """Return the calls per second of a class."""
    return f"{number(read('readme_server.md').row(value, 'class, async def')['median']):,.0f}"


def imports() -> str:
    """Return what imports cost."""
    table, rows = read("imports.md"), list[list[str]]()
    titles = {"types of 2025-11-25": ", loaded when they are used", "all types of 2025-11-25": ""}
    for name, more in titles.items():
        _, _, cpu, memory, time_ratio, memory_ratio, *_ = table.cells(name)
        ratio = f"{number(time_ratio):g} of its time, {number(memory_ratio):g} of its memory"
        rows.append([name + more, cpu, memory, ratio])
    _, _, cpu, memory, *_ = table.cells("mcp_types")
    rows.append(["`mcp_types`", cpu, memory, "1"])
    return markdown(["import", "CPU ms", "MiB", "ratio to `mcp_types` 2.3.0, above bare pydantic"], rows)


# ---- bridge ----------------------------------------------------------------------------------------------------------

BRIDGES: Final = {
    "ours": "`mcp-generated bridge`",
    "bare relay": "a relay that only copies lines",
    "FastMCP 4.1.2": "FastMCP 4.1.2",
    "mcp-proxy": "mcp-proxy",
    "supergateway": "supergateway",
    "mcp-remote": "mcp-remote",
}


def bridges() -> str:
    """Return the CPU time that a call adds with each bridge."""
    ways = ("stdio to stdio", "HTTP to stdio", "stdio to HTTP")
    tables = [read("bridge.md", way) for way in ways]
    rows: list[list[str]] = []
    for name, title in BRIDGES.items():
        own = [table.row(name) if any(row[0] == name for row in table.rows) else {} for table in tables]
        cells = [[f"{number(row[head]):,.0f}" for head in ("1: CPU µs", "100: CPU µs") if row] for row in own]
        rows.append([title, *map(", ".join, cells)])
    return markdown(["bridge", *ways], rows)


def bridge_own(sessions: int) -> str:
    """Return the MiB of a bridge after so many sessions with a process for each."""
    return read("bridge_sessions.md", "A process for each session, 10 open at a time").row(f"{sessions:,}")["MiB"]


# ---- HTTP ------------------------------------------------------------------------------------------------------------


def idle(row: str, megabytes: float) -> str:
    """Return a value of our server with 10,000 idle sessions, in megabytes."""
    return f"{number(read('http.md', '10,000 idle sessions').row(row)['ours']) * megabytes:.0f}"


# ---- stores ----------------------------------------------------------------------------------------------------------


def stores() -> str:
    """Return the ratios of a call with a store to the same call in memory."""
    table, rows = read("store.md", "Stores"), list[list[str]]()
    for title, *kinds in (
        ("a JSON answer", "session, 1", "session, 32"),
        ("a stream, one call at a time", "session with a stream, 1"),
        ("a stream, 32 calls at a time", "session with a stream, 32"),
        (
            "a stream whose messages come one after another",
            "session, messages over time, 1",
            "session, messages over time, 32",
        ),
    ):
        cells: list[str] = []
        for store in ("sqlite", "redis"):
            ratios = sorted({f"{number(table.row(kind, store)['ratio']):.1f}" for kind in kinds})
            cells.append(f"{' to '.join(ratios)} times")
        rows.append([title, *cells])
    return markdown(["call", "SQLite", "Redis"], rows)


# ---- reliability -----------------------------------------------------------------------------------------------------


def kills(is_chosen: Callable[[str], bool]) -> str:
    """Return how many instants the rows of some stores have."""
    rows = read("reliability.md", "Kills, restarts and cuts").rows
    instants = [re.split("[: ]", row[2])[0] for row in rows if is_chosen(row[0])]
    return f"{sum(map(number, instants)):,.0f}"


def kills_of_tasks() -> str:
    """Return how many instants repeatable tasks had."""
    return f"{sum(int(row[2].partition(':')[0]) for row in read('reliability.md', 'Repeatable tasks').rows)}"


def cuts(*stores: str) -> str:
    """Return how many times streams of stores were cut."""
    table = read("reliability.md", "Cuts")
    return f"{sum(number(table.row(store)['cuts']) for store in stores):,.0f}"


def soak(what: str) -> str:
    """Return a number of the soak."""
    return read("reliability.md", "Calls of the soak").row(what)["number"]


def simulated(what: str) -> str:
    """Return a number of the schedules that were played."""
    return read("reliability.md", "Schedules that were played").row(what)["number"]


def soak_growth() -> str:
    """Return the growth of the memory of workers in a soak, in percent, since its first tenth."""
    _, first, *_, last = read("reliability.md", "Soak").cells("MiB of the workers")
    return f"{(number(last) / number(first) - 1) * 100:.1f}"


def slow_readers() -> str:
    """Return the times of another client's calls."""
    table = read("slow_readers.md")
    names = ("endpoint", "version", "before", "during", "after")
    rows = [[row[table.heads.index(name)] for name in names] for row in table.rows]
    return markdown(["", *names[1:]], rows)


def slow_readers_calls() -> str:
    """Return how many calls another client has made."""
    table = read("slow_readers.md")
    return f"{sum(int(row[table.heads.index('calls')]) for row in table.rows):,}"


def slow_readers_result(what: str) -> str:
    """Return how many cells there are; raise ValueError if one has a call without an answer or misses the aim."""
    table = read("slow_readers.md")
    if any(row[-2:] != ["0", "yes"] for row in table.rows):
        raise ValueError("slow_readers.md: a cell misses the aim, so that the page needs other words")
    return what.format(len(table.rows))


def slow_readers_load() -> str:
    """Return the load of the machine at the end."""
    match = re.search(r"at the end was ([\d.]+)\.", (RESULTS / "slow_readers.md").read_text(encoding="utf-8"))
    assert match is not None, "slow_readers.md states the load"
    return match[1]


SOAK: Final = ("calls", "streams that were left", "sessions", "seconds")

# By name: what comes to the places of this name.
TEXTS: Final[Mapping[str, Callable[[], str]]] = {
    "readme": readme,
    "class-sequential": partial(readme_class, "sequential, calls/s"),
    "class-pipelined": partial(readme_class, "pipelined, calls/s"),
    "imports": imports,
    "bridges": bridges,
    "bridges-day": partial(day, "bridge.md"),
    "bridge-sessions": partial(copied, "bridge_sessions.md", "10 shared processes"),
    **{f"bridge-own-{count}": partial(bridge_own, count) for count in (1000, 2000, 4000)},
    "sessions-memory": partial(idle, "bytes per idle session", 10_000 / 1e6),
    "streams-memory": partial(idle, "MB with all sessions and streams open", 1),
    "masters": partial(copied, "store_masters.md", ""),
    "capacity-costs": capacity.costs_table,
    "capacity": capacity.table,
    "capacity-worker": lambda: f"{capacity.limits()[0]:,}",
    "capacity-redis": lambda: f"{capacity.limits()[1]:,}",
    "capacity-redis-memory": lambda: f"{capacity.need_of(10_000_000).redis_bytes / 2**30:.2g} GiB",
    "capacity-change": lambda: f"{capacity.need_of(10_000_000).notify_seconds:.1f}",
    "converted": lambda: f"{number(read('styles.md').row('class, converted')['ratio']):g}",
    "stores": stores,
    "kills": partial(copied, "reliability.md", "Kills, restarts and cuts"),
    "kills-of-tasks": partial(copied, "reliability.md", "Repeatable tasks"),
    "session-bytes": partial(copied, "reliability.md", "Bytes of 10,000 sessions"),
    "session-objects": partial(copied, "reliability.md", "Objects of a session"),
    "soak": partial(copied, "reliability.md", "Soak"),
    "simulated-faults": partial(copied, "reliability.md", "Simulated schedules"),
    "simulated": partial(simulated, "schedules of the code as it is now"),
    "fuzz": partial(copied, "reliability.md", "Bytes of others"),
    "kills-now": partial(kills, lambda store: store.endswith("as it is now")),
    "kills-all": partial(kills, lambda store: "losses" not in store and "same seeds" not in store),
    "kills-of-tasks-instants": kills_of_tasks,
    "cuts": partial(cuts, "SQLite", "Redis"),
    "cuts-sqlite": partial(cuts, "SQLite"),
    "cuts-redis": partial(cuts, "Redis"),
    **{f"soak-{what.split()[0]}": partial(soak, what) for what in SOAK},
    "soak-growth": soak_growth,
    "subscriptions": partial(copied, "subscriptions.md", ""),
    "connections": partial(copied, "connections.md", ""),
    "tenants": partial(copied, "tenants.md", ""),
    "slow-readers": slow_readers,
    "slow-readers-calls": slow_readers_calls,
    "slow-readers-cells": partial(slow_readers_result, "all {} cells"),
    "slow-readers-day": partial(day, "slow_readers.md"),
    "slow-readers-load": slow_readers_load,
}


def pages() -> list[Path]:
    """Return the pages that may have places."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def written(page: str) -> str:
    """Return a page with what comes to its places. Raises LookupError for a name that TEXTS does not have."""

    def fill(match: re.Match[str]) -> str:
        begin, kind, name, _, end = match.groups()
        if name not in TEXTS:
            raise LookupError(f"benchmarks/tables.py has no text {name!r}")
        text = TEXTS[name]()
        return f"{begin}\n\n{text}\n\n{end}" if kind == "table" else f"{begin}{text}{end}"

    return PLACE.sub(fill, page)


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; the exit code says whether all is written")
    options = parser.parse_args()
    old: list[str] = []
    for path in pages():
        text = path.read_text(encoding="utf-8")
        if (new := written(text)) != text:
            old.append(str(path.relative_to(ROOT)))
            if not options.check:
                path.write_text(new, encoding="utf-8")
    print("\n".join(old) or "all tables are up to date")
    sys.exit(int(options.check and bool(old)))


if __name__ == "__main__":
    main()
