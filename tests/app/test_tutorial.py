"""The weather server of the tutorials: the seed's code with its import lines changed, and our example in its style."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.fake_weather import FakeWeather, serving
from support.installation.extras import needs
from support.project import ROOT

from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t

DEADLINE = 30.0
SEEDS = Path(os.environ.get("MCP_SEEDS", ROOT.parent / "shared" / "seeds"))
EXAMPLE = ROOT / "examples" / "weather" / "decorated.py"
SACRAMENTO = {"latitude": 38.58, "longitude": -121.49}
# What the tutorial imports, and what is imported instead.
IMPORTS = {
    "import httpx": "import nearby as httpx",
    "from mcp.server.fastmcp import FastMCP": "from mcp_generated import App as FastMCP",
}
# The tutorial asks the service by its name on the web; this client of the same library asks the one on this machine.
NEARBY = """
import os
import httpx2

class AsyncClient(httpx2.AsyncClient):
    async def get(self, url, **settings):
        base = os.environ["WEATHER_API"]
        answer = await super().get(url.replace("https://api.weather.gov", base), **settings)
        return answer
"""


def tutorial() -> str:
    """The Python weather server of the seeds, its blocks put together."""
    for seed in sorted(SEEDS.glob("004_*.txt")) if SEEDS.is_dir() else ():
        text = seed.read_text(encoding="utf-8")
        start = text.find("from mcp.server.fastmcp import FastMCP")
        if start < 0:
            continue
        end = text.index("Your server is complete!", start)
        blocks = re.findall(r"```python\n(.*?)```", text[text.rindex("```python", 0, start) : end], re.DOTALL)
        return "\n".join(blocks)
    pytest.skip(f"the seed documents are not in {SEEDS}")


def lines_of(code: str) -> int:
    """How many lines of a program are not empty."""
    return sum(bool(line.strip()) for line in code.splitlines())


async def conversation(program: Path, fake: FakeWeather) -> dict[str, Any]:
    async with Client.stdio(sys.executable, str(program), env={"WEATHER_API": fake.url}) as client:
        tools = {tool.name: tool async for tool in client.iter_tools()}
        alerts = await client.call_tool(name="get_alerts", arguments={"state": "CA"})
        forecast = await client.call_tool(name="get_forecast", arguments=SACRAMENTO)
        wrong = await client.call_tool(name="get_forecast", arguments={"latitude": "38.58", "longitude": 0})
    return {"tools": tools, "alerts": text(alerts), "forecast": text(forecast), "wrong": wrong}


def text(result: t.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, t.TextContent) and result.is_error is None
    return content.text


def results_of(program: Path) -> dict[str, Any]:
    with serving() as fake:
        return asyncio.run(asyncio.wait_for(conversation(program, fake), DEADLINE))


@pytest.mark.long
@needs("http")
def test_the_tutorials_code_runs_with_only_its_import_lines_changed(tmp_path: Path) -> None:
    code = tutorial()
    changed = [IMPORTS.get(line, line) for line in code.splitlines()]
    differing = [line for line, other in zip(code.splitlines(), changed, strict=False) if line != other]
    assert differing == [*IMPORTS]
    (tmp_path / "nearby.py").write_text(NEARBY, encoding="utf-8")
    (tmp_path / "weather.py").write_text("\n".join(changed), encoding="utf-8")
    results = results_of(tmp_path / "weather.py")
    assert [*results["tools"]] == ["get_alerts", "get_forecast"]
    state = results["tools"]["get_alerts"].input_schema.model_dump()["properties"]["state"]
    assert state == {"type": "string", "description": "Two-letter US state code (e.g. CA, NY)"}
    assert results["tools"]["get_forecast"].description == "Get weather forecast for a location."
    assert "Event: Flood Warning" in results["alerts"] and "Forecast: Mostly clear." in results["forecast"]
    assert results["wrong"].is_error is True


@pytest.mark.long
def test_the_example_in_this_style_does_the_same_and_is_no_longer_than_the_tutorial() -> None:
    results = results_of(EXAMPLE)
    assert [*results["tools"]] == ["get_alerts", "get_forecast"]
    latitude = results["tools"]["get_forecast"].input_schema.model_dump()["properties"]["latitude"]
    expected = {"type": "number", "minimum": -90, "maximum": 90, "description": "Latitude of the place, in degrees."}
    assert latitude == expected
    assert results["tools"]["get_alerts"].annotations.read_only_hint is True
    assert "Event: Flood Warning" in results["alerts"] and "Forecast: Mostly clear." in results["forecast"]
    assert results["wrong"].is_error is True
    assert lines_of(EXAMPLE.read_text(encoding="utf-8")) <= lines_of(tutorial())
