"""`dependencies=` of an App, as `mcp-generated install` reads it, and servers that a host starts with uv."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.cli.commands import INSTALLED

from mcp_codegen.cli.main import main

OWN = f"mcp-generated[cli]=={version('mcp-generated')}"
SERVER = "from {module} import {name}\napp = {call}('Shop', dependencies={value})\n"


def source(value: str, name: str = "App", call: str | None = None, module: str = "mcp_generated") -> str:
    return SERVER.format(module=module, name=name, call=call or name, value=value)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program `uv` on the PATH, which runs what it gets with this Python."""
    programs = tmp_path / "programs"
    programs.mkdir()
    uv = programs / "uv"
    uv.write_text(f'#!/bin/sh\nwhile [ "$1" != python ]; do shift; done; shift\nexec {sys.executable} "$@"\n')
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("PYTHONPATH", INSTALLED["PYTHONPATH"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def install(*words: str, file: Path | None = None) -> Result:
    place = [] if file is None else ["--host", "cursor", "--file", str(file)]
    return CliRunner().invoke(main, ["install", *words, *place])


def entry(file: Path) -> tuple[str, list[str]]:
    [server] = json.loads(file.read_text(encoding="utf-8"))["mcpServers"].values()
    return server["command"], server["args"]


posix = pytest.mark.skipif(os.name == "nt", reason="the stand-in for uv is a shell script")


@pytest.mark.edges("list", "fastmcp")
@pytest.mark.long
@posix
@pytest.mark.parametrize(
    "text",
    [
        source("['pandas>=2', 'pyserver-x']"),
        source("('pandas>=2', 'pyserver-x')", "App as Application", "Application"),
        source("['pandas>=2', 'pyserver-x']", "FastMCP", module="mcp_generated.compat"),
        "import mcp_generated\n\n\nclass Own(mcp_generated.App): ...\n\n\n"
        "app = Own('Shop', dependencies=['pandas>=2', 'pyserver-x'])\n",
    ],
    ids=["list", "renamed", "fastmcp", "subclass"],
)
def test_uv_installs_the_dependencies_of_the_app(project: Path, text: str) -> None:
    (project / "server.py").write_text(text)
    file = project / "hosts.json"
    done = install("server.py", "--uv", "--with", "httpx", "--with", "pandas>=2", file=file)
    assert done.exit_code == 0 and "Shop added" in done.output, done.output
    command, words = entry(file)
    packages = [word for name in (OWN, "pandas>=2", "pyserver-x", "httpx") for word in ("--with", name)]
    run = ["python", "-m", "mcp_codegen", "run", str(project / "server.py")]
    assert (command, words) == (str(project / "programs" / "uv"), ["run", "--no-project", *packages, *run])


@posix
def test_a_module_is_started_with_uv_as_well(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(project)
    (project / "shop_module.py").write_text(source("['pyserver-x']"))
    file = project / "hosts.json"
    assert install("-m", "shop_module", "--name", "shop", "--uv", file=file).exit_code == 0
    run = ["python", "-m", "mcp_codegen", "run", "-m", "shop_module"]
    assert entry(file)[1] == ["run", "--no-project", "--with", OWN, "--with", "pyserver-x", *run]


def test_packages_that_this_python_has_change_nothing(project: Path) -> None:
    (project / "server.py").write_text(source("['pydantic>=2', 'other; python_version < \"3\"']"))
    file = project / "hosts.json"
    assert install("server.py", "--name", "x", file=file).exit_code == 0
    assert entry(file) == (sys.executable, ["-m", "mcp_codegen", "run", str(project / "server.py")])


def test_dependencies_of_what_is_no_app_are_not_read(project: Path) -> None:
    text = "from fastapi import Depends, FastAPI\nweb = FastAPI(dependencies=[Depends(print)])\n"
    (project / "server.py").write_text(text + source("['pydantic']"))
    assert install("server.py", "--name", "x", "--dry-run").exit_code == 0


PYTHON_ONLY = "--uv and --with are for a Python file or -m MODULE"
DYNAMIC = "NAMES = ['pyserver-x']\n" + source("NAMES")


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        (
            source("['pydantic', 'pyserver-x', 'pyserver-y>1']"),
            ("server.py", "--name", "x"),
            "server.py: the App has dependencies=['pyserver-x', 'pyserver-y>1'], which this Python does not have: "
            "add --uv, or install them here with pip",
        ),
        (DYNAMIC, ("server.py", "--name", "x", "--uv"), "line 3: write dependencies=[…] with the texts themselves"),
        ("app = App(", ("server.py", "--name", "x", "--uv"), "server.py: is not Python: '(' was never closed"),
        ("", ("https://x/mcp", "--name", "x", "--uv"), PYTHON_ONLY),
        (
            "",
            ("--name", "x", "--with", "y", "--", sys.executable, "-V"),
            PYTHON_ONLY,
        ),
    ],
    ids=["missing", "dynamic", "syntax", "url", "command"],
)
def test_what_cannot_be_installed_is_refused_in_one_line(
    project: Path, text: str, words: tuple[str, ...], message: str
) -> None:
    (project / "server.py").write_text(text)
    files = sorted(project.iterdir())
    done = install("--host", "cursor", "--file", "hosts.json", *words)
    assert done.exit_code == 2 and message in done.output and done.output.count("\n") == 1, done.output
    assert sorted(project.iterdir()) == files


def test_without_uv_the_message_names_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))
    (project / "server.py").write_text(source("[]"))
    done = install("server.py", "--name", "x", "--uv", file=project / "hosts.json")
    assert done.exit_code == 2 and "uv is not on the PATH: install it" in done.output, done.output
