"""A package of its own: the bindings with the runtime inside, in an environment that holds nothing of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pydantic import VERSION
from support.fake_weather import serving
from support.project import ROOT

from mcp_codegen.cli.main import main

DEADLINE = 120.0  # Seconds that a process may take on a busy machine.


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package `weather_mcp` in it, and the example's server changed to use that."""
    folder = tmp_path_factory.mktemp("standalone")
    result = run("--revision", "2025-03-26", "--standalone", "--output", folder / "weather_mcp")
    assert result.exit_code == 0, result.output
    for name in ("server.py", "nws.py"):
        text = (ROOT / "examples" / "weather" / name).read_text(encoding="utf-8")
        text = text.replace("from mcp_generated", "from weather_mcp")
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a virtual environment that holds pydantic alone."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    make = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(make, check=True, capture_output=True, timeout=DEADLINE)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "-q",
        "--no-compile",
        f"pydantic=={VERSION}",
    ]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode:
        pytest.skip(f"pydantic cannot be installed here: {done.stderr.strip()[-200:]}")
    return python


def exchange(python: Path, place: Path, environment: dict[str, str], *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """What the server says to these messages, once its input is closed."""
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    command = [str(python), "-I", "-c", "import sys; sys.path.insert(0, '.'); import server; server.main()"]
    done = subprocess.run(
        command, cwd=place, env=environment, input=lines, capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.long
def test_the_weather_server_runs_where_nothing_of_ours_is_installed(place: Path, bare_python: Path) -> None:
    ours = (
        "import importlib.util as u; "
        "print([n for n in ('mcp_runtime', 'mcp_generated', 'mcp_codegen') if u.find_spec(n)])"
    )
    done = subprocess.run([str(bare_python), "-I", "-c", ours], capture_output=True, text=True, timeout=DEADLINE)
    assert done.stdout == "[]\n", done.stderr
    opening = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    with serving() as service:
        answers = exchange(
            bare_python,
            place,
            {"WEATHER_API": service.url},
            {"id": 1, "method": "initialize", "params": opening},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "get_alerts", "arguments": {"state": "CA"}}},
        )
    assert [answer["id"] for answer in answers] == [1, 2]
    assert "Flood Warning" in answers[1]["result"]["content"][0]["text"]


@pytest.mark.long
def test_no_module_of_it_imports_anything_of_ours(place: Path) -> None:
    files = sorted((place / "weather_mcp").rglob("*.py"))
    assert {"runtime/protocol/connection.py", "v2025_03_26/client.py"} <= {
        str(path.relative_to(place / "weather_mcp")) for path in files
    }
    for path in files:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        assert not [line for line in lines if line.startswith(("from mcp_", "import mcp_"))], path


@pytest.mark.long
def test_the_tables_that_its_code_reads_stand_beside_it(place: Path) -> None:
    products = ROOT / "products/mcp_products"
    tables = {path.relative_to(products) for path in products.rglob("*.toml")}
    assert Path("auth/providers/table.toml") in tables
    assert tables == {path.relative_to(place / "weather_mcp/products") for path in place.rglob("*.toml")}


@pytest.mark.long
def test_each_file_says_what_made_it_and_how_to_make_it_again(place: Path) -> None:
    command = "# Regenerate with: mcp-codegen --revision 2025-03-26 --standalone --output weather_mcp\n"
    for path in sorted((place / "weather_mcp").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert "enerated by mcp-codegen" in text, path
        assert command in text, path
    package = place / "weather_mcp"
    assert run("--revision", "2025-03-26", "--standalone", "--output", package, "--check").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--standalone needs --output DIR"),
        (("--output", "my-package"), "'my-package' cannot be imported"),
    ],
)
def test_a_package_that_cannot_be_imported_is_not_made(arguments: tuple[str, ...], message: str) -> None:
    result = run("--revision", "2025-03-26", "--standalone", *arguments)
    assert result.exit_code == 2 and message in result.output
