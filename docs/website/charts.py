"""The page about performance: charts of the tables in benchmarks/results, with the versions and the date of each."""

from __future__ import annotations

import re
import tomllib
from typing import Final, Literal, NamedTuple

from website import svg
from website.markdown import site_page
from website.navigation import ROOT, pages

RESULTS: Final = ROOT / "benchmarks" / "results"


class Chart(NamedTuple):
    """Rows of a table as bars: the columns to show, the first of which is ours.

    Args:
        file: The file of results.
        section: The heading above the table; empty for the first table of the file.
        rows: The first cells of the rows.
        columns: How the names of the columns begin.
        title: What the chart shows, and which bars are better.
        form: "wide" if the table has a row for each of `rows`; "flipped" if it has a column for each; "long" if it has
            a row for each bar, with the value, who was measured, and the figure.
    """

    file: str
    section: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    title: str
    form: Literal["wide", "flipped", "long"] = "wide"


README_SERVER: Final = ("App, plain def", "MCPServer (mcp 2.3.0)")

CHARTS: Final = (
    Chart(
        "readme_server.md",
        "",
        ("sequential, calls/s", "pipelined, calls/s"),
        README_SERVER,
        "Calls a second of the server of README over stdio: longer is better",
        "long",
    ),
    Chart(
        "readme_server.md",
        "",
        ("start, ms CPU", "HTTP, start, ms CPU"),
        README_SERVER,
        "Milliseconds of CPU from the start of the server of README to its first answer: shorter is better",
        "long",
    ),
    Chart(
        "readme_server.md",
        "",
        ("pipelined, µs CPU a call", "HTTP, µs CPU a call"),
        README_SERVER,
        "Microseconds of CPU of a call of the server of README: shorter is better",
        "long",
    ),
    Chart(
        "stdio.md",
        "Servers, 2025-06-18",
        ("sequential calls/s", "pipelined calls/s"),
        ("ours", "mcp", "TS 1", "TS 2"),
        "Calls a second of a server class with async methods over stdio, 2025-06-18: longer is better",
    ),
    Chart(
        "stdio.md",
        "Servers, 2025-06-18",
        ("cold start to first response, ms",),
        ("ours", "mcp", "TS 1", "TS 2"),
        "Milliseconds from the start of a server class to its first answer: shorter is better",
    ),
    Chart(
        "stdio.md",
        "Servers, 2025-06-18",
        ("peak memory, sequential, MiB", "peak memory, pipelined, MiB"),
        ("ours", "mcp", "TS 1", "TS 2"),
        "MiB of memory of a server class over stdio: shorter is better",
    ),
    Chart(
        "http.md",
        "With a session, 2025-11-25",
        ("calls/s, 1 connection", "calls/s, 16 connections"),
        ("ours", "mcp", "TS 1"),
        "Calls a second of a server over HTTP, 2025-11-25: longer is better",
    ),
    Chart(
        "http.md",
        "With a session, 2025-11-25",
        ("p50 ms, 16 connections", "p99 ms, 16 connections"),
        ("ours", "mcp", "TS 1"),
        "Milliseconds of a call over HTTP, half of all calls and 99 of 100: shorter is better",
    ),
    Chart(
        "http.md",
        "10,000 idle sessions",
        ("bytes per idle session", "MB with all sessions and streams open"),
        ("ours", "mcp"),
        "Memory of a server with 10,000 idle sessions: shorter is better",
    ),
    Chart(
        "imports.md",
        "",
        ("cpu ms", "MiB"),
        ("all types of 2025-11-25", "all types of 2026-07-28", "mcp_types", "pydantic"),
        "Milliseconds and MiB of an import of the types: shorter is better",
        "flipped",
    ),
    Chart(
        "models.md",
        "",
        ("read", "write"),
        ("ours", "mcp_types", "msgspec"),
        "Microseconds to read and to write 100 tools, beside mcp_types and msgspec: shorter is better",
    ),
)


class ChartError(ValueError):
    """Raised if a table of the results has no row or column that a chart needs; the message names it."""


def page() -> str:
    """Return the page about performance."""
    parts = [
        "# Performance\n",
        "The charts show what `nox -s bench` measured last, all bars of a chart in one run on one machine.",
        "Other machines give other numbers: compare the ratios. `nox -s bench -- stdio` measures one of them again.\n",
    ]
    for chart in CHARTS:
        parts += [f"## {chart.title.partition(':')[0]}\n", f"```{{raw}} html\n{figure(chart)}\n```\n"]
    parts.append("## All results\n")
    for path in sorted(RESULTS.glob("*.md")):
        title, _, body = path.read_text(encoding="utf-8").partition("\n")
        parts += [
            f"### {title.lstrip('# ')}\n",
            f"Measured {_date(path.name)}.\n",
            re.sub(r"^##", "####", site_page(body, path, {**pages(), path: "performance.md"}), flags=re.M),
        ]
    return "\n".join(parts)


def figure(chart: Chart) -> str:
    """Return the HTML figure of a chart, whose caption has the date and what was measured with which versions."""
    text = (RESULTS / chart.file).read_text(encoding="utf-8")
    about = " ".join(re.split(r"\n## |\n\|", text)[0].partition("\n")[2].split())
    if "Measured " not in about:  # Results of before the programs wrote it.
        about = f"Measured {_date(chart.file)}. {about}"
    image = _bars(chart, _table(text, chart.section, chart.form))
    return (
        f'<figure class="picture"><div class="picture-scroll" tabindex="0" role="group" aria-label="{chart.title}">'
        f"{image}</div><figcaption>{chart.title}. {about}</figcaption></figure>"
    )


def _bars(chart: Chart, table: dict[str, dict[str, str]]) -> str:
    shapes: list[str] = []
    y = 6.0
    for row in chart.rows:
        if row not in table:
            raise ChartError(f"{chart.file}: {chart.section}: there is no row {row!r}")
        values = {name: _number(_cell(table[row], name, chart.file)) for name in chart.columns}
        shapes.append(svg.text(4, y + 12, row, anchor="start"))
        y += 20
        for index, (column, value) in enumerate(values.items()):
            name = next(one for one in table[row] if one.startswith(column))
            label = "mcp-codegen" if name in ("ours", "ours, µs", README_SERVER[0]) else name.partition(",")[0]
            shapes.append(svg.text(160, y + 14, label, small=True, anchor="end"))
            length = 428 * value / max(values.values())
            shapes.append(svg.bar(168, y + 2, length, 16, "ours" if not index else "peer"))
            shapes.append(svg.text(174 + length, y + 14, f"{value:,g}", small=True, anchor="start"))
            y += 22
        y += 12
    return svg.image(720, y, chart.title, shapes)


def _table(text: str, section: str, form: str) -> dict[str, dict[str, str]]:
    """Return the rows of the first table below a heading: by their first cell, the others by their columns.

    Of columns with the same name, the first counts. A flipped table has its columns as rows. The second and the third
    cell of a long one are a column and its value.
    """
    _, heading, rest = text.partition(f"\n## {section}\n") if section else ("", "the file", text)
    lines = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("|")]
    if not heading or len(lines) < 3:
        raise ChartError(f"there is no table below {section!r}")
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    if form == "flipped":
        head, *rows = [list(column) for column in zip(head, *rows, strict=True)]
    table: dict[str, dict[str, str]] = {}
    for row in rows:
        cells = table.setdefault(row[0], {})
        if form == "long":
            cells[row[1]] = row[2]
            continue
        for name, cell in zip(head[1:], row[1:], strict=True):
            cells.setdefault(name, cell)
    return table


def _cell(row: dict[str, str], column: str, file: str) -> str:
    name = next((one for one in row if one.startswith(column) and "/" not in one), None)
    if name is None:
        raise ChartError(f"{file}: there is no column {column!r}")
    return row[name]


def _number(cell: str) -> float:
    return float(cell.replace(",", "").split()[0])


def _date(file: str) -> str:
    """Return the day of a file of results."""
    table = tomllib.loads((RESULTS / "results.toml").read_text(encoding="utf-8"))
    return str(table[file]["day"])
