"""Each example starts as `python -m examples.NAME`."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from support.clients import connect
from support.databases.postgres import environment_with_driver
from support.peers import started
from support.processes import free_port
from support.project import ROOT

from mcp_generated import MCPError

EXAMPLES = ROOT / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/__main__.py"))
DEADLINE = 60.0

# What an example needs behind its name: {folder} is an empty folder, {port} a free port.
ARGUMENTS = {
    "filesystem": ["{folder}"],
    "gateway": ["{folder}"],
    "memory": ["{folder}/memory.json"],
    "transports": ["{folder}/socket"],
    "protected": ["{port}"],
    "web": ["0"],
}
ENVIRONMENT = {"OPENWEATHER_API_KEY": "key", "NOTES_SECRET": "secret", "MCP_PORT": "0"}
LISTENING = ("deployment", "protected", "transports", "web")
OTHERS = [("weather", "decorated"), ("everything", "server"), ("web", "fastapi_app"), ("transports", "web_socket")]


def command(name: str, folder: Path) -> list[str]:
    words = [word.format(folder=folder, port=free_port()) for word in ARGUMENTS.get(name, [])]
    return [sys.executable, "-m", f"examples.{name}", *words]


async def tools_of(words: list[str], **variables: str) -> list[str]:
    async with connect(words, env={**os.environ, **ENVIRONMENT, **variables}, cwd=str(ROOT)) as client:
        return [tool.name async for tool in client.iter_tools()]


def output_of(words: list[str], typed: str = "") -> str:
    done = subprocess.run(words, input=typed, capture_output=True, text=True, timeout=DEADLINE, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_until_listening(words: list[str], ready: str = "listening at ") -> None:
    server = started(["env", "-C", str(ROOT), *words], {**os.environ, **ENVIRONMENT}, ready)
    server.process.terminate()
    server.process.wait(DEADLINE)


def test_each_example_has_a_module_to_run_that_names_its_programs() -> None:
    folders = {path.parent.name for path in EXAMPLES.glob("*/*.py")} - {"plugins"}  # These belong to the generator.
    assert folders == set(NAMES)
    for name in NAMES:
        *_, call = ast.parse((EXAMPLES / name / "__main__.py").read_text(encoding="utf-8")).body
        assert isinstance(call, ast.Expr) and isinstance(call.value, ast.Call)
        programs = [word.value for word in call.value.args if isinstance(word, ast.Constant)]
        assert programs and all((EXAMPLES / name / f"{program}.py").is_file() for program in programs)


async def test_an_example_starts_as_a_module(tmp_path: Path) -> None:
    assert "read_file" in await tools_of(command("filesystem", tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
async def test_each_example_starts_as_a_module(name: str, tmp_path: Path) -> None:
    words = command(name, tmp_path)
    if name == "chatbot":
        server = f"{sys.executable} -m examples.echo"
        assert "Tools: echo" in output_of([*words, server], "quit\n")
    elif name == "skills":
        assert "skill://release-notes" in output_of(words)
    elif name == "postgres":
        assert await tools_of(words, **environment_with_driver()) == ["query"]
    elif name in LISTENING:
        wait_until_listening(words)
    else:
        assert await tools_of(words)


@pytest.mark.long
@pytest.mark.parametrize(("name", "program"), OTHERS)
async def test_the_first_argument_names_another_program(name: str, program: str) -> None:
    words = [sys.executable, "-m", f"examples.{name}", program]
    if name == "web":
        wait_until_listening([*words, "0"], "Uvicorn running on ")
    elif name == "transports":
        import_module("websockets")
        wait_until_listening([*words, "0"])
    else:
        assert await tools_of(words)


@pytest.mark.long
async def test_a_name_that_is_no_program_is_an_argument_of_the_first_one(tmp_path: Path) -> None:
    with pytest.raises(MCPError, match="'decorated' is not a folder"):
        await tools_of([sys.executable, "-m", "examples.filesystem", "decorated"])
