"""`python -m mcp_products.metrics.top`: what runs now at a server or a gateway, for `mcp-generated top`.

It reads the route that Prometheus scrapes, so it sees the sum of all workers and nothing that is secret.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mcp_runtime.aio import clock
from mcp_runtime.errors import LocalError
from mcp_runtime.usage.texts import plain, shortened

_REMEDY: Final = (
    'has no metrics: write app.run("http", metrics_path="/metrics") into the server, or metrics = "/metrics" into '
    "[gateway] of a gateway's file"
)
_SAMPLE: Final = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {"n": "\n"}
_TIMEOUT: Final = 5.0  # Seconds.
_MAX_BYTES: Final = 32 << 20
_NAME_WIDTH: Final = 40  # Characters of a name.

_OPERATIONS: Final = "mcp_server_operation_duration_seconds"
_STATES: Final = ("closed", "half open", "open")


# ---- one look at the metrics -----------------------------------------------------------------------------------------

Labels = Mapping[str, str]


@dataclass
class Look:
    """The samples of one scrape."""

    time: float
    samples: dict[str, list[tuple[Labels, float]]] = field(default_factory=dict[str, list[tuple[Labels, float]]])

    def of(self, name: str) -> list[tuple[Labels, float]]:
        """Return the samples of a name."""
        return self.samples.get(name, [])

    def total(self, name: str) -> float | None:
        """Return the sum of the samples of a name; None if there are none."""
        return sum(value for _, value in self.of(name)) if name in self.samples else None

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the sums of the samples of a name by a label."""
        sums: dict[str, float] = {}
        for labels, value in self.of(name):
            sums[labels.get(label, "")] = sums.get(labels.get(label, ""), 0.0) + value
        return sums


def parsed(text: str, time: float) -> Look:
    """Return the samples of a text in the format of Prometheus."""
    look = Look(time)
    for line in text.splitlines():
        if (found := _SAMPLE.match(line)) is not None:
            name, inner, value = found.groups()
            labels = {
                key: re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), escaped)
                for key, escaped in _LABEL.findall(inner or "")
            }
            look.samples.setdefault(name, []).append((labels, float(value)))
    return look


def scraped(url: str) -> tuple[str, str]:
    """Return the URL of the metrics of a server, and their text.

    Args:
        url: The URL of the metrics, of the endpoint, or of the host.

    Raises LocalError with what to do if there are none.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise LocalError(f"{url!r} is not a URL: write http://127.0.0.1:8000")
    usual = parts._replace(path="/metrics", query="", fragment="").geturl()
    problem = ""
    path = parts.path.strip("/")
    for place in (url,) if "metrics" in path else (usual, url) if path else (usual,):
        request = urllib.request.Request(place, headers={"accept": "text/plain"})
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                text = answer.read(_MAX_BYTES).decode(errors="replace")
            if text.startswith("# ") or not text:
                return place, text
        except urllib.error.HTTPError as error:
            error.close()
            problem = f" ({error.code})"
        except (OSError, ValueError) as error:
            raise LocalError(f"{place} cannot be reached: {getattr(error, 'reason', error)}") from None
    raise LocalError(f"{usual} {_REMEDY}{problem}")


# ---- what is shown ---------------------------------------------------------------------------------------------------


def page(url: str, now: Look, before: Look | None) -> list[str]:
    """Return the lines for a look: rates and quantiles since another one, or else all since the server has begun."""
    lines = [f"{plain(url)}   {'since the start' if before is None else f'in {now.time - before.time:.1f} s'}"]
    lines.append("   ".join(_figures(now, before)))
    lines += ["", *_table(("tool or method", "calls", "calls/s", "errors", "p50 ms", "p99 ms"), _tools(now, before))]
    if upstreams := [*_upstreams(now, before)]:
        columns = ("upstream", "state", "circuit", "requests", "requests/s", "failures", "mean ms")
        lines += ["", *_table(columns, upstreams)]
    if refused := now.by("mcp_runtime_refused_total", "limit"):
        lines += ["", *_table(("refused by", "requests"), [(limit, _whole(count)) for limit, count in refused.items()])]
    return lines


def _figures(now: Look, before: Look | None) -> Iterator[str]:
    for name, unit in (("requests", "running"), ("sessions", ""), ("streams", "")):
        yield f"{name} {_whole(now.total(f'mcp_runtime_{name}'))} {unit}".rstrip()
    yield f"calls/s {_rate(now, before, f'{_OPERATIONS}_count')}"
    if (lag := now.total("mcp_runtime_store_lag_seconds")) is not None:
        workers = now.of("mcp_runtime_store_lag_seconds")
        yield f"workers {len(workers)}   store lag {max(value for _, value in workers) if lag else 0.0:.1f} s"
        yield f"undelivered {_whole(now.total('mcp_runtime_messages_undelivered'))}"


def _tools(now: Look, before: Look | None) -> Iterator[tuple[str, ...]]:
    counts, errors = _calls(now), _calls(now, failed=True)
    then = {} if before is None else _calls(before)
    for name in sorted(counts, key=lambda name: (-counts[name], name)):
        rate = "-" if before is None else f"{_grown(counts[name], then.get(name, 0.0)) / _seconds(now, before):.1f}"
        buckets = _buckets(now, name, before)
        quantiles = (_milliseconds(quantile(buckets, part)) for part in (0.5, 0.99))
        yield name, _whole(counts[name]), rate, _whole(errors.get(name, 0.0)), *quantiles


def _name_of(labels: Labels) -> str:
    method = labels.get("mcp_method_name", "")
    return labels.get("gen_ai_tool_name") or " ".join(filter(None, (method, labels.get("gen_ai_prompt_name"))))


def _calls(look: Look, failed: bool = False) -> dict[str, float]:
    sums: dict[str, float] = {}
    for labels, value in look.of(f"{_OPERATIONS}_count"):
        if not failed or labels.get("error_type"):
            sums[_name_of(labels)] = sums.get(_name_of(labels), 0.0) + value
    return sums


def _buckets(now: Look, name: str, before: Look | None) -> dict[float, float]:
    """Return how many calls took at most so many seconds: those between two looks, or all if there were none."""
    found = [_cumulative(look, name) for look in (now, before) if look is not None]
    if len(found) == 2:
        grown = {bound: _grown(count, found[1].get(bound, 0.0)) for bound, count in found[0].items()}
        return grown if any(grown.values()) else {}
    return found[0]


def _cumulative(look: Look, name: str) -> dict[float, float]:
    sums: dict[float, float] = {}
    for labels, value in look.of(f"{_OPERATIONS}_bucket"):
        if _name_of(labels) == name:
            bound = float(labels["le"])
            sums[bound] = sums.get(bound, 0.0) + value
    return sums


def quantile(buckets: Mapping[float, float], part: float) -> float | None:
    """Return a quantile in seconds, as `histogram_quantile` of Prometheus does; None without measurements."""
    total, below, lower = buckets.get(math.inf, 0.0), 0.0, 0.0
    if not total:
        return None
    for bound, count in sorted(buckets.items()):
        if count >= part * total:
            if bound == math.inf:
                return lower
            return lower + (bound - lower) * (part * total - below) / (count - below) if count > below else bound
        below, lower = count, bound
    return lower


def _upstreams(now: Look, before: Look | None) -> Iterator[tuple[str, ...]]:
    names = ("requests_total", "failures_total", "seconds_total", "upstream_up", "upstream_circuit")
    requests, failures, seconds, up, circuit = (now.by(f"mcp_gateway_{name}", "upstream") for name in names)
    then = {} if before is None else before.by("mcp_gateway_requests_total", "upstream")
    for name, count in requests.items():
        state = circuit.get(name)
        yield (
            name,
            "ok" if up.get(name, 1.0) else "failed",
            "-" if state is None else _STATES[int(state)] if 0 <= state < len(_STATES) else "?",
            _whole(count),
            "-" if before is None else f"{_grown(count, then.get(name, 0.0)) / _seconds(now, before):.1f}",
            _whole(failures.get(name)),
            _milliseconds(seconds.get(name, 0.0) / count if count else None),
        )


def _rate(now: Look, before: Look | None, name: str) -> str:
    if before is None:
        return "-"
    return f"{_grown(now.total(name) or 0.0, before.total(name) or 0.0) / _seconds(now, before):.1f}"


def _grown(count: float, before: float) -> float:
    return count - before if count >= before else count  # The server has begun anew.


def _seconds(now: Look, before: Look) -> float:
    return max(now.time - before.time, 1e-3)


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return lines with columns: names to the left, numbers to the right."""
    cells = [head, *([shortened(plain(row[0]), _NAME_WIDTH), *row[1:]] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells]


# ---- the terminal ----------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Show what runs until Ctrl-C, or once; return 0, or 2 after an error."""
    parser = argparse.ArgumentParser(prog="mcp-generated top", add_help=False)
    parser.add_argument("url")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--interval", type=float, default=2.0)
    options = parser.parse_args(arguments)
    try:
        url, text = scraped(options.url)
        now = parsed(text, clock.monotonic())
        if options.once or not sys.stdout.isatty():
            print("\n".join(page(url, now, None)), flush=True)
        else:
            _follow(url, now, options.interval)
    except LocalError as error:
        print(f"error: {plain(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print()
    except BrokenPipeError:  # The reader has what it wants, as `head` has; the end of the program flushes once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _follow(url: str, first: Look, interval: float) -> None:
    if sys.platform == "win32":
        os.system("")  # From now on, the console reads escape sequences.
    before, lines, pause = first, page(url, first, None), threading.Event()
    while True:
        _draw(lines)
        pause.wait(interval)
        try:
            now = parsed(scraped(url)[1], clock.monotonic())
            lines = page(url, now, before)
            before = now
        except LocalError as error:
            lines = [plain(str(error)), *lines[1:]]


def _draw(lines: Sequence[str]) -> None:
    """Write lines over those before, without what the window has no room for."""
    size = shutil.get_terminal_size()
    shown = [f"{line[: size.columns - 1]}\x1b[K" for line in lines[: size.lines - 1]]
    sys.stdout.write("\x1b[H" + "\r\n".join(shown) + "\x1b[J")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
