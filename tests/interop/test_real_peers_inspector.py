"""The Inspector's command line lists and calls the tools of our examples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from support.fake_weather import serving
from support.peers import example_served, node_peer
from support.project import ROOT

pytestmark = pytest.mark.long

INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
LIMIT = 60.0
FAILED_TOOL = 5  # How it ends where a tool says that it failed.


def inspected(example: str, method: str, *options: str, env: dict[str, str] | None = None) -> tuple[int, Any, str]:
    """The exit code, what was printed as JSON, and the standard error of `npx @modelcontextprotocol/inspector --cli`,
    for an example or a URL."""
    folder = node_peer(INSPECTOR)
    name = INSPECTOR.rpartition("@")[0]
    script = ROOT / "examples" / example / "server.py"
    server = [example] if example.startswith("http:") else [sys.executable, str(script), "stdio"]
    settings = [option for variable in (env or {}).items() for option in ("-e", "=".join(variable))]
    # `--no` keeps npx from downloading anything.
    command = ["npx", "--no", "--", name, "--cli", *settings, *server, "--method", method, *options]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "npm_config_update_notifier": "false"},
    )
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr


def answer(example: str, method: str, *options: str, env: dict[str, str] | None = None) -> Any:
    code, printed, errors = inspected(example, method, *options, env=env)
    assert code == 0, errors
    return printed


def test_it_lists_the_tools_of_the_echo_server() -> None:
    tools = answer("echo", "tools/list")["tools"]
    assert [tool["name"] for tool in tools] == ["echo", "slow"]
    assert tools[0]["inputSchema"] == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }


def test_it_calls_a_tool_of_the_echo_server() -> None:
    result = answer("echo", "tools/call", "--tool-name", "echo", "--tool-arg", "text=héllo wörld")
    assert result["content"] == [{"type": "text", "text": "héllo wörld"}]
    result = answer("echo", "tools/call", "--tool-name", "slow", "--tool-arg", "seconds=0.1")
    assert result["content"] == [{"type": "text", "text": "waited 0.1 s"}]


def test_it_shows_the_error_of_a_call_that_our_server_refuses() -> None:
    code, printed, errors = inspected("echo", "tools/call", "--tool-name", "echo")
    assert (code, printed) == (1, None)
    assert "no tool takes this: echo with []" in errors


@pytest.mark.exhaustive
def test_it_lists_and_calls_the_tools_of_the_weather_server() -> None:
    with serving() as weather:
        env = {"WEATHER_API": weather.url, "WEATHER_USER_AGENT": "tests/1", "WEATHER_TIMEOUT": "5"}
        tools = answer("weather", "tools/list", env=env)["tools"]
        assert [tool["name"] for tool in tools] == ["get_alerts", "get_forecast"]
        alerts = answer("weather", "tools/call", "--tool-name", "get_alerts", "--tool-arg", "state=CA", env=env)
        assert alerts["content"][0]["text"].startswith("Event: Flood Warning\nArea: Sacramento\n")
        place = ("--tool-arg", "latitude=38.58", "--tool-arg", "longitude=-121.49")
        forecast = answer("weather", "tools/call", "--tool-name", "get_forecast", *place, env=env)
        assert forecast["content"][0]["text"].startswith("Period 1:\nTemperature: 51°F\n")
        wrong = ("--tool-name", "get_alerts", "--tool-arg", "state=ZZ")
        code, nowhere, _ = inspected("weather", "tools/call", *wrong, env=env)
        assert code == FAILED_TOOL and nowhere["isError"] is True


@pytest.mark.exhaustive
def test_it_lists_and_reads_what_the_everything_server_has() -> None:
    names = [tool["name"] for tool in answer("everything", "tools/list")["tools"]]
    assert names[:2] == ["echo", "add"] and len(names) > 5  # More than one page of them.
    text = answer("everything", "resources/read", "--uri", "demo://text")
    assert text["contents"][0]["text"] == "héllo"
    prompt = answer("everything", "prompts/get", "--prompt-name", "describe", "--prompt-args", "city=Rome")
    assert prompt["messages"][0]["content"]["text"] == "Describe Rome in a short text."
    assert len(answer("everything", "resources/templates/list")["resourceTemplates"]) == 2


@pytest.mark.exhaustive
def test_it_lists_calls_and_reads_over_http_in_both_its_shapes() -> None:
    with example_served("everything") as host:
        for url in (f"{host}/mcp", f"{host}/sse"):
            assert [tool["name"] for tool in answer(url, "tools/list")["tools"]][:2] == ["echo", "add"]
            result = answer(url, "tools/call", "--tool-name", "echo", "--tool-arg", "text=héllo")
            assert result["content"] == [{"type": "text", "text": "héllo"}]
            assert answer(url, "resources/read", "--uri", "demo://text")["contents"][0]["text"] == "héllo"


def test_it_calls_a_server_of_every_revision_over_http() -> None:
    with example_served("echo") as host:
        result = answer(f"{host}/mcp", "tools/call", "--tool-name", "echo", "--tool-arg", "text=héllo")
        assert result["content"] == [{"type": "text", "text": "héllo"}]
