"""mypy --strict and pyright strict find the mistakes users make; `nox -s check` runs them on this repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from house.calls.public_list import ANY_KEYWORD, WRONG, wrong_program
from support.checkers import mypy, pyright
from support.peers import once
from support.project import package

Checker = Callable[..., list[str]]
CALLS = Path(__file__).parent / "calls"
WRONG_CALLS = (CALLS / "wrong.txt").read_text(encoding="utf-8")

# Right use, with every mistake below one line of it changed.
SNIPPET = """
from mcp_generated.v2025_03_26 import Client, Context, Server
from mcp_generated.v2025_03_26 import types as t


class Weather(Server):
    async def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        text = t.TextContent(text=params.name)
        return t.CallToolResult(content=[text])

    def list_tools(self, ctx: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
        schema = t.ToolInputSchema(properties={"state": {"type": "string"}})
        return t.ListToolsResult(tools=[t.Tool(name="alerts", input_schema=schema)])


async def main() -> str | None:
    async with Client.stdio("python", "weather.py") as client:
        result = await client.call_tool(name="alerts", arguments={"state": "CA"})
        first = result.content[0]
        return first.text if isinstance(first, t.TextContent) else None
"""
MISTAKES = {
    "a wrong keyword of a call": ('name="alerts", arguments', 'tool="alerts", arguments'),
    "a wrong type of an argument": ('arguments={"state": "CA"}', 'arguments="CA"'),
    "a missing argument": ('call_tool(name="alerts", ', "call_tool("),
    "a wrong params type in a handler": (
        "ctx: Context, params: t.CallToolRequestParams",
        "ctx: Context, params: t.GetPromptRequestParams",
    ),
    "a wrong return type of a handler": ("-> t.CallToolResult:", "-> t.ListToolsResult:"),
    "a wrong return type of a plain handler": ("-> t.ListToolsResult:", "-> t.CallToolResult:"),
    "a wrong keyword of a type": ("text=params.name", "txt=params.name"),
    "a wrong type in a type": ("text=params.name", "text=1"),
    "an attribute that is not there": ("params.name", "params.nmae"),
    "a constant that is another": ("TextContent(text=", 'TextContent(type="image", text='),
    "a missing property": ('Tool(name="alerts", input_schema=schema)', 'Tool(name="alerts")'),
    "a wrong kind of content": ("content=[text]", "content=[schema]"),
}


@pytest.fixture(scope="module", params=[mypy, pytest.param(pyright, marks=pytest.mark.long)], ids=["mypy", "pyright"])
def findings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What one checker says of the right snippet and of each wrong one, all in one run."""
    check: Checker = request.param

    def lines() -> list[str]:
        return check(written(tmp_path_factory.mktemp("snippets")), ".")

    reported: list[str] = once(tmp_path_factory, f"findings-{check.__name__}", lines)
    return reported


def written(folder: Path) -> Path:
    """Write the right program and the wrong ones into a folder."""
    (folder / "right.py").write_text(SNIPPET)
    for number, (old, new) in enumerate(MISTAKES.values()):
        assert SNIPPET.count(old) == 1, old
        (folder / f"wrong_{number}.py").write_text(SNIPPET.replace(old, new))
    for name in ("right", "wrong"):
        (folder / f"{name}_calls.py").write_text((CALLS / f"{name}.txt").read_text(encoding="utf-8"))
    (folder / "wrong_keywords.py").write_text(wrong_program()[0])
    return folder


def test_right_use_has_no_findings(findings: list[str]) -> None:
    assert [line for line in findings if line.startswith("right.py")] == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_reported_where_it_is_made(findings: list[str], mistake: str) -> None:
    number = list(MISTAKES).index(mistake)
    old, _ = MISTAKES[mistake]
    line = SNIPPET[: SNIPPET.index(old)].count("\n") + 1
    reported = {int(finding.split(":")[1]) for finding in findings if finding.startswith(f"wrong_{number}.py:")}
    assert reported and min(abs(number_of_line - line) for number_of_line in reported) <= 1, findings


def test_right_calls_have_no_findings(findings: list[str]) -> None:
    assert [line for line in findings if line.startswith("right_calls.py")] == []


def test_each_wrong_call_is_reported(findings: list[str]) -> None:
    """A checker may miss no line below the comment, and report none above it."""
    first = WRONG_CALLS[: WRONG_CALLS.index("# Only wrong lines follow.")].count("\n") + 2
    last = WRONG_CALLS.count("\n")
    assert last - first > 70
    reported = {int(finding.split(":")[1]) for finding in findings if finding.startswith("wrong_calls.py:")}
    lines = WRONG_CALLS.splitlines()
    missed = [lines[number - 1] for number in range(first, last + 1) if number not in reported]
    assert (missed, min(reported) >= first) == ([], True)


def test_a_wrong_keyword_of_every_public_call_is_reported(findings: list[str]) -> None:
    _, names = wrong_program()
    lines = [finding for finding in findings if finding.startswith("wrong_keywords.py:")]
    reported = {int(line.split(":")[1]) for line in lines if WRONG in line or "o overload" in line}
    assert len(names) > 1200
    assert {name for number, name in names.items() if number not in reported} == ANY_KEYWORD


def test_no_type_has_a_numbered_name_or_is_a_root_model(revision: str) -> None:
    types = package(revision, "types")
    file = Path(str(types.__file__))
    for path in file.parent.glob("*.py") if file.name == "__init__.py" else [file]:
        assert "RootModel" not in path.read_text()
    names = [name for name in dir(types) if name[-1].isdigit()]
    assert names == []
