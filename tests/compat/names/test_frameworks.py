"""The programs of docs/frameworks.md: agent frameworks as installed, with our packages for the originals."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.project import ROOT

# Each installs a framework of its own. test_packages_by_name.py runs what frameworks import and call, in the long run.
pytestmark = pytest.mark.exhaustive

ORIGINALS = ("mcp", "mcp-types", "fastmcp", "fastmcp-slim")
NEEDED = ("anyio", "h11", "httptools", "httpx2", "jsonschema-rs", "starlette", "uritemplate", "uvicorn")

# The protocol versions that the originals of a form know, and a server of one of them.
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
REVISIONS = {"v1": HANDSHAKES, "v2": (*HANDSHAKES, "2026-07-28")}
ONE_VERSION = """
from mcp_generated.app import App

app = App("shop")


@app.tool
def add(a: int, b: int) -> int:
    return a + b


app.run("stdio", revisions=["{revision}"])
"""


class Framework(NamedTuple):
    """A framework: the title of its program, the form of our packages, and the packages to install."""

    title: str
    form: str
    packages: tuple[str, ...]


FRAMEWORKS = (
    Framework("OpenAI Agents", "v2", ("openai-agents==0.24.0",)),
    Framework("LangChain", "v1", ("langchain-mcp-adapters==0.3.2", "langchain>=1.3.9", "httpx")),
    Framework("Pydantic AI", "v2", ("pydantic-ai-slim[mcp]==2.33.0", "httpx")),
)


def program(title: str) -> str:
    """Return the first program of a section of the page."""
    page = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
    [section] = [part for part in re.split(r"^## ", page, flags=re.M) if part.startswith(f"{title}\n")]
    found = re.search(r"^```py\n(.*?)^```", section, re.M | re.S)
    assert found is not None, title
    return found[1]


def uv(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "uv", *words], capture_output=True, text=True)


@pytest.fixture
def environment(request: Any, tmp_path: Path) -> Path:
    """The interpreter of an environment with a framework, our packages, and none of the originals."""
    framework: Framework = request.param
    python = tmp_path / "env" / "bin" / "python"
    uv("venv", "--quiet", "--python", sys.executable, str(tmp_path / "env"))
    installed = uv("pip", "install", "--quiet", "--python", str(python), *framework.packages, *NEEDED)
    if installed.returncode != 0:
        pytest.skip(f"{framework.packages[0]} cannot be installed: {installed.stderr.strip()[-300:]}")
    uv("pip", "uninstall", "--quiet", "--python", str(python), *ORIGINALS)
    wheels = tmp_path / "wheels"
    words = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels)]
    subprocess.run([sys.executable, *words, str(ROOT / "products" / "names" / framework.form)], check=True)
    [wheel] = wheels.glob("*.whl")
    done = uv("pip", "install", "--quiet", "--no-deps", "--python", str(python), str(wheel))
    assert done.returncode == 0, done.stderr
    [packages] = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (packages / "checkout.pth").write_text("".join(f"{ROOT / name}\n" for name in ("runtime", "products", "generated")))
    return python


@pytest.mark.parametrize(
    ("environment", "title"),
    [(item, item.title) for item in FRAMEWORKS],
    ids=lambda item: str(item),
    indirect=["environment"],
)
def test_a_framework_calls_a_tool_of_a_server_that_it_starts(environment: Path, title: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program(title))
    command = [str(environment), "program.py"]
    [form] = [item.form for item in FRAMEWORKS if item.title == title]
    page = program("The server of the programs")
    servers = {"all": page} | {revision: ONE_VERSION.format(revision=revision) for revision in REVISIONS[form]}
    for served, server in servers.items():
        (tmp_path / "server.py").write_text(server)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{served}: {done.stderr}"
        assert done.stdout.strip() == "3" or "'text': '3'" in done.stdout, served
