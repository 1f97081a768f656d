"""What a bridge adds to a call: latency and CPU time, beside the bridges of others and a relay that only copies lines.

    python benchmarks/bridge [--turns 3] [--quick]

Every bridge has the same bare upstream, and the same requests. Bridges alternate, each time in a fresh process. The
tables are also written to benchmarks/results/bridge.md.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from bridge_load import Costs, Load, over_http, over_stdio  # noqa: E402
from measures.machine import measured  # noqa: E402
from peers import environment, node_packages, ours_with  # noqa: E402
from rich.console import Console  # noqa: E402
from stdio_table import markdown, shown  # noqa: E402

RESULTS: Final = HERE.parent / "results" / "bridge.md"
OURS, RELAY, DIRECT = "ours", "bare relay", "no bridge"
FASTMCP, MCP_PROXY, SUPERGATEWAY, MCP_REMOTE = "FastMCP 4.1.2", "mcp-proxy", "supergateway", "mcp-remote"
LIMITS: Final = {FASTMCP: 1 / 5, MCP_PROXY: 1 / 5, SUPERGATEWAY: 1 / 2, MCP_REMOTE: 1 / 2, RELAY: 2.5}
"""How large the ratio of ours to another bridge may be."""
FULL: Final = Load(warm_up=200, sequential=1000, concurrent=3000)
QUICK: Final = Load(warm_up=20, sequential=50, concurrent=200)

Command = Sequence[str | Path]


class Route(NamedTuple):
    """One combination of transports: its title, how calls are measured with and without a bridge, and the commands."""

    title: str
    measure: Callable[[Command, Load], Costs]
    direct: Callable[[Load], Costs]
    commands: Mapping[str, Command]
    share: int = 1  # The part of the calls that are made, because some bridges are slow.


@contextmanager
def http_upstream(python: Path) -> Iterator[str]:
    """Yield the URL of a bare upstream over HTTP."""
    process = subprocess.Popen([python, HERE / "bare_http_upstream.py", "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        process.kill()
        process.wait()


class Programs(NamedTuple):
    """What is started: the interpreters and the programs, and the bare upstreams."""

    own: Path
    fastmcp: Path
    proxy: Path
    supergateway: Command
    remote: Command
    echo: Command
    http_echo: Command


def installed() -> Programs:
    """Install the bridges of others, and return what is started."""
    own = ours_with("http")
    node = node_packages("bridges", "supergateway@4.0.0", "mcp-remote@0.15.1") / "node_modules"
    return Programs(
        own,
        environment("fastmcp", "fastmcp==4.1.2"),
        environment("mcp-proxy", "mcp-proxy==0.13.0"),
        ["node", node / "supergateway" / "dist" / "index.js", "--logLevel", "none"],
        ["node", node / "mcp-remote" / "dist" / "proxy.js"],
        [own, HERE.parent / "servers" / "stdio_bare_server.py"],
        [own, HERE / "bare_http_upstream.py", "PORT"],
    )


def from_stdio_to_stdio(programs: Programs) -> Route:
    """Return the bridges from stdio to stdio."""
    echo = programs.echo
    commands: dict[str, Command] = {
        RELAY: [programs.own, HERE / "bare_relay.py", *echo],
        OURS: [programs.own, "-m", "mcp_products.relay.bridge", "--", *echo],
        FASTMCP: [programs.fastmcp, HERE / "fastmcp_proxy.py", *echo],
    }
    return Route("stdio to stdio", over_stdio, partial(over_stdio, echo), commands)


def from_http_to_stdio(programs: Programs) -> Route:
    """Return the bridges from HTTP to stdio."""
    echo, line = programs.echo, " ".join(map(str, programs.echo))
    streamable = ("--outputTransport", "streamableHttp", "--stateful", "--port", "PORT")
    commands: dict[str, Command] = {
        OURS: [programs.own, "-m", "mcp_products.relay.bridge", "--http", "127.0.0.1:PORT", "--", *echo],
        FASTMCP: [programs.fastmcp, HERE / "fastmcp_proxy.py", "--port", "PORT", *echo],
        MCP_PROXY: [programs.proxy, "-m", "mcp_proxy", "--port", "PORT", "--", *echo],
        SUPERGATEWAY: [*programs.supergateway, "--stdio", line, *streamable],
    }
    return Route("HTTP to stdio", over_http, partial(over_http, programs.http_echo), commands)


def from_stdio_to_http(programs: Programs, url: str) -> Route:
    """Return the bridges from stdio to HTTP."""
    commands: dict[str, Command] = {
        OURS: [programs.own, "-m", "mcp_products.relay.bridge", url],
        FASTMCP: [programs.fastmcp, HERE / "fastmcp_proxy.py", url],
        MCP_PROXY: [programs.proxy, "-m", "mcp_proxy", "--transport", "streamablehttp", url],
        SUPERGATEWAY: [*programs.supergateway, "--streamableHttp", url],
        MCP_REMOTE: [*programs.remote, url, "--transport", "http-only", "--allow-http"],
    }
    return Route("stdio to HTTP", over_stdio, partial(over_http, programs.http_echo), commands, share=5)


def medians(samples: Sequence[Costs]) -> Costs:
    """Return the median of each value."""
    return Costs(*(statistics.median(values) for values in zip(*samples, strict=True)))


def rows(figures: Mapping[str, Costs]) -> Iterator[list[str]]:
    """Yield a row for each bridge: its values, and the ratio of ours to it with the limit."""
    own = figures[OURS]
    for name, values in figures.items():
        cells = [name, *(f"{value:,.0f}" if value >= 100 else f"{value:.2f}" for value in values)]
        limit = LIMITS.get(name)
        if limit is None:
            yield [*cells, "", "", ""]
            continue
        compared = (1, 3) if name == RELAY else (0, 1, 2, 3)
        ratios = [own[place] / values[place] for place in compared]
        text = f"≤ {limit:.2g}" if limit >= 1 else f"≤ 1/{1 / limit:.0f}"
        yield [*cells, ", ".join(f"{ratio:.2f}" for ratio in ratios), text, "yes" if max(ratios) <= limit else "no"]


HEADS: Final = ("bridge", "1: p50 ms", "1: CPU µs", "100: p50 ms", "100: CPU µs", "ours / it", "limit", "met")


def added(values: Costs, direct: Costs) -> Costs:
    """Return values with the latencies that a bridge adds."""
    if values is direct:
        return values
    return values._replace(p50=values.p50 - direct.p50, concurrent_p50=values.concurrent_p50 - direct.concurrent_p50)


def main() -> None:
    """Measure, print the tables, and write them."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a short run, to test the program")
    parser.add_argument("--only", help="a part of the title of a combination")
    options = parser.parse_args()
    load, parts = QUICK if options.quick else FULL, list[str]()
    with http_upstream(Path(sys.executable)) as url:
        programs = installed()
        for route in (
            from_stdio_to_stdio(programs),
            from_http_to_stdio(programs),
            from_stdio_to_http(programs, url),
        ):
            if options.only is not None and options.only not in route.title:
                continue
            part = load.part(route.share)
            samples: dict[str, list[Costs]] = {name: [] for name in (DIRECT, *route.commands)}
            for _ in range(options.turns):
                samples[DIRECT].append(route.direct(part))
                for name, command in route.commands.items():
                    samples[name].append(route.measure(command, part))
            whole = {name: medians(values) for name, values in samples.items()}
            table = list(rows({name: added(values, whole[DIRECT]) for name, values in whole.items()}))
            Console(width=150).print(shown(route.title, HEADS, table))
            parts.append(f"## {route.title}\n\n{markdown(HEADS, table)}\n")
    if not options.quick and options.only is None:
        RESULTS.write_text(f"{INTRODUCTION.format(load=load, turns=options.turns)}{measured()}\n\n" + "\n".join(parts))


INTRODUCTION: Final = """# What a bridge adds to a call

Medians of {turns} turns of {load.sequential:,} calls one after another and {load.concurrent:,} with {load.in_flight} in
flight, each after {load.warm_up} that do not count; between stdio and HTTP, of a fifth of them. The upstream is a bare
echo. CPU is that of the bridge's process. The latencies are what the bridge adds: those of the same client without a
bridge, in the first row, are subtracted. The ratios are of the four values, for the bare relay of the CPU times.

"""

if __name__ == "__main__":
    main()
