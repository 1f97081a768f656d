"""The wheel, the sdist and the editable install hold the same packages and see the same data."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.project import ROOT

DATA = [path for folder in ("schema", "templates") for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
PACKAGES = {"mcp_codegen": "codegen", "mcp_runtime": "runtime", "mcp_generated": "generated"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked as pip does it."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder


def sources() -> set[str]:
    """Every file of the packages, at the place it has in a wheel."""
    paths: set[str] = set()
    for package, folder in PACKAGES.items():
        for path in (ROOT / folder / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                paths.add(str(path.relative_to(ROOT / folder)))
    return paths | {f"mcp_codegen/{path.relative_to(ROOT)}" for path in DATA}


def test_the_wheel_holds_the_packages_and_their_data_and_nothing_else(installed: Path) -> None:
    files = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert {name for name in files if ".dist-info" not in name} == sources()
    for package in PACKAGES:
        assert f"{package}/py.typed" in files


def test_the_sdist_holds_what_it_takes_to_build_and_test(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "tests/conftest.py", "examples/echo/server.py", "docs/fidelity.md"} <= names
    assert {str(path.relative_to(ROOT)) for path in DATA} <= names


@pytest.mark.long
def test_an_installed_wheel_generates_what_the_checkout_does(installed: Path, tmp_path: Path) -> None:
    # Only the unpacked wheel is on the path: the editable install in site-packages comes after it.
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "mcp_codegen", "--revision", "2025-06-18"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    written = tmp_path / "mcp_bindings" / "v2025_06_18"
    committed = ROOT / "generated" / "mcp_generated" / "v2025_06_18"
    assert {path.name: path.read_bytes() for path in written.glob("*.py")} == {
        path.name: path.read_bytes() for path in committed.glob("*.py")
    }
    for arguments in (
        ["--revision", "2025-06-18", "--standalone", "--output", "own"],
        ["explore", "--output", "mcp.html"],
    ):
        done = [sys.executable, "-m", "mcp_codegen", *arguments]
        subprocess.run(done, cwd=tmp_path, env=environment, check=True, capture_output=True)
    own = {str(path.relative_to(tmp_path / "own")) for path in (tmp_path / "own").rglob("*.py")}
    runtime = {str(path.relative_to(ROOT / "runtime" / "mcp_runtime")) for path in (ROOT / "runtime").rglob("*.py")}
    assert {f"runtime/{name}" for name in runtime} | {"v2025_06_18/client.py"} <= own
    assert (tmp_path / "mcp.html").stat().st_size > 100_000
    where = [
        sys.executable,
        "-c",
        "import mcp_codegen, mcp_generated.v2025_06_18 as v; print(mcp_codegen.__file__, v.__file__)",
    ]
    shown = subprocess.run(where, cwd="/", env=environment, check=True, capture_output=True, text=True).stdout
    assert shown.split() == [
        f"{installed}/mcp_codegen/__init__.py",
        f"{installed}/mcp_generated/v2025_06_18/__init__.py",
    ]


HELLO = """
from mcp_generated import App

app = App("calculator")


@app.tool()
def add(a: int, b: int) -> int:
    return a + b


if __name__ == "__main__":
    app.run("stdio")
"""


def test_each_hint_names_an_extra_that_there_is() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    hints: dict[str, set[str]] = {}
    for folder in ("runtime", "codegen", "templates", "docs", "README.md"):
        paths = [ROOT / folder] if (ROOT / folder).is_file() else sorted((ROOT / folder).rglob("*"))
        for path in paths:
            if path.suffix in (".py", ".jinja2", ".md"):
                for name, named in re.findall(r"(mcp[-_](?:codegen|generated))\[([\w,]+)\]", path.read_text()):
                    hints.setdefault(name, set()).update(named.split(","))
    assert hints.keys() == {"mcp-generated"}
    assert {"app", "auth", "codegen", "http", "skills"} <= hints["mcp-generated"] <= extras.keys()


class Environment:
    """An empty virtual environment."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "env", with_pip=True)
        self.folder = folder
        self.programs = folder / "env" / "bin"
        self._variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(
        self, program: str, *arguments: str | Path, code: int = 0, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.programs / program, *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self._variables,
            **options,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def packages(self) -> set[str]:
        listed = json.loads(self.run("pip", "list", "--format", "json").stdout)
        return {package["name"] for package in listed} - {"pip", "setuptools"}

    def size(self) -> int:
        """The bytes of all packages but those that come with the environment."""
        site = next((self.folder / "env" / "lib").glob("python*/site-packages"))
        first = {path: path.relative_to(site).parts[0].partition("-")[0] for path in site.rglob("*") if path.is_file()}
        return sum(
            path.stat().st_size for path, name in first.items() if name not in ("pip", "setuptools", "pkg_resources")
        )


@pytest.mark.long
def test_an_empty_environment_needs_little_and_serves(built: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    environment.run("pip", "install", "-q", "--no-compile", next(built.glob("*.whl")))
    packages = environment.packages()
    assert "mcp-generated" in packages and len(packages) <= 6, packages
    assert environment.size() <= 11.75 * 2**20, environment.size()  # 7 MiB of these are pydantic and pydantic-core.
    (tmp_path / "server.py").write_text(HELLO)
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}},
    ]
    served = environment.run("python", "server.py", input="".join(json.dumps(message) + "\n" for message in messages))
    assert json.loads(served.stdout.splitlines()[-1])["result"]["structuredContent"] == {"result": 3}


@pytest.mark.long
def test_the_command_says_what_to_install(built: Path, tmp_path: Path) -> None:
    environment, wheel = Environment(tmp_path), next(built.glob("*.whl"))
    (tmp_path / "server.py").write_text(HELLO)
    environment.run("pip", "install", "-q", wheel)
    refused = environment.run("mcp-codegen", "--revision", "2025-03-26", code=2)
    assert refused.stderr == "mcp-codegen needs click: pip install 'mcp-generated[codegen]'\n"
    refused = environment.run("mcp-codegen", "run", "server.py", code=2)
    assert refused.stderr == "mcp-codegen needs click: pip install 'mcp-generated[cli]'\n"

    environment.run("pip", "install", "-q", f"{wheel}[cli]")
    assert "3" in environment.run("mcp-codegen", "call", "server.py", "add", "a=1", "b=2").stdout
    environment.run("mcp-codegen", "create", "shop")
    refused = environment.run("mcp-codegen", "--revision", "2025-03-26", code=2)
    assert refused.stderr.endswith("pip install 'mcp-generated[codegen]'\n")

    environment.run("pip", "install", "-q", f"{wheel}[codegen]")
    environment.run("mcp-codegen", "--revision", "2025-03-26")
    assert (tmp_path / "mcp_bindings" / "v2025_03_26" / "client.py").is_file()
