"""`mcp-generated migrate`: requirements, container files and lock files."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("libcst", reason="libcst is not installed")

from mcp_codegen.migrate.project import Project, bounds
from mcp_codegen.migrate.report import MARK

SERVER: Final = "from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('x')\n"
OURS: Final = f"mcp-generated[app,compat]{bounds()}"


def migrated(folder: Path, name: str, text: str, source: str = SERVER) -> tuple[str, list[str]]:
    """A file beside a server after its changes, without marks, and their reasons; a second run changes nothing."""
    (folder / "server.py").write_text(source)
    path = folder / name
    path.write_bytes(text.encode())
    for _ in range(2):
        file = next(file for file in Project(folder, "compat").edited() if file.path == path)
        if _ == 0:
            first = file
            path.write_bytes(file.after)
    assert file.after == first.after, "a second run changes something"
    lines = [line for line in first.after.decode().splitlines(keepends=True) if not line.lstrip().startswith(MARK)]
    return "".join(lines), [mark.reason for mark in first.marks]


PROJECT: Final = """\
[project]
name = "shop"
requires-python = ">=3.11"
dependencies = [
    "mcp[cli]>=1.9,<2", # the SDK
    "httpx>=0.28",
]

[project.optional-dependencies]
old = ['fastmcp==2.7.0; python_version < "3.14"']

[dependency-groups]
dev = ["pytest>=8", {include-group = "x"}]

[tool.pytest.ini_options]
filterwarnings = ["ignore::mcp.shared.exceptions.MCPDeprecationWarning"]
"""


def test_requirements_of_a_project_change_in_place(tmp_path: Path) -> None:
    text, reasons = migrated(tmp_path, "pyproject.toml", PROJECT)
    expected = PROJECT.replace("mcp[cli]>=1.9,<2", f"mcp-generated[app,cli,compat]{bounds()}")
    expected = expected.replace("fastmcp==2.7.0", OURS).replace("mcp.shared.exceptions.MCP", "mcp_generated.compat.MCP")
    assert (text, reasons) == (expected, [])
    assert tomllib.loads(text)["project"]["dependencies"][1] == "httpx>=0.28"


def test_extras_follow_what_the_program_uses(tmp_path: Path) -> None:
    source = SERVER + "from mcp.server.auth.settings import AuthSettings\nmcp.run(transport='streamable-http')\n"
    text, _ = migrated(tmp_path, "requirements.txt", "mcp\n", source)
    assert text == f"mcp-generated[app,auth,compat,http]{bounds()}\n"


CONTRADICTIONS: Final = {
    'requires-python = ">=3.10"': "Python 3.11",
    'dependencies = ["mcp", "pydantic>=2.10,<2.12"]': "pydantic>=2.12.3",
    'dependencies = ["mcp", "pydantic==2.10.1"]': "pydantic>=2.12.3",
    'dependencies = ["mcp", "pydantic>=2.10,<3"]': "",
    'dependencies = ["mcp", "starlette<1"]': "starlette>=1.10",
}


@pytest.mark.parametrize("line", CONTRADICTIONS)
def test_bounds_that_leave_no_version_get_a_mark(line: str, tmp_path: Path) -> None:
    rest = "" if "dependencies" in line else '\ndependencies = ["mcp"]'
    _, reasons = migrated(tmp_path, "pyproject.toml", f'[project]\nname = "x"\n{line}{rest}\n')
    assert [CONTRADICTIONS[line] in reason for reason in reasons] == ([True] if CONTRADICTIONS[line] else [])


def test_a_package_that_came_with_the_sdk_is_asked_for(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\ndependencies = ["mcp"]\n'
    _, reasons = migrated(tmp_path, "pyproject.toml", text, SERVER + "import httpx\n")
    assert [reason.partition(" ")[0] for reason in reasons] == ["httpx"]


def test_the_sdk_stays_while_something_imports_it(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\ndependencies = ["mcp>=1"]\n'
    after, reasons = migrated(tmp_path, "pyproject.toml", text, SERVER + "from mcp.shared.session import BaseSession\n")
    assert tomllib.loads(after)["project"]["dependencies"] == [OURS, "mcp>=1"]
    assert ["still imported" in reason for reason in reasons] == [True]


def test_tables_of_poetry_change(tmp_path: Path) -> None:
    text = '[tool.poetry.dependencies]\npython = "^3.11"\nmcp = {extras = ["cli"], version = "^1.9"}\nother = "1"\n'
    after, _ = migrated(tmp_path, "pyproject.toml", text)
    row = tomllib.loads(after)["tool"]["poetry"]["dependencies"]
    assert row == {
        "python": "^3.11",
        "mcp-generated": {"version": bounds(), "extras": ["app", "cli", "compat"]},
        "other": "1",
    }


def test_lines_of_requirements_keep_comments_and_others(tmp_path: Path) -> None:
    text = "# SDK\nmcp==1.6.0  # pinned\nmcp-other>=1\nfastmcp\n"
    after, _ = migrated(tmp_path, "requirements-dev.txt", text)
    assert after == f"# SDK\n{OURS}  # pinned\nmcp-other>=1\n{OURS}\n"


CONTAINER: Final = """\
FROM python:3.10-slim
# pip install mcp
RUN pip install --no-cache-dir \\
    "mcp[cli]>=1.2" httpx
COPY mcp /srv/mcp
CMD ["fastmcp", "run", "server.py"]
"""


def test_what_a_container_installs_changes_and_its_commands_get_marks(tmp_path: Path) -> None:
    after, reasons = migrated(tmp_path, "Dockerfile", CONTAINER)
    assert after == CONTAINER.replace('"mcp[cli]>=1.2"', f'"mcp-generated[app,cli,compat]{bounds()}"')
    assert [reason.split(" ")[0] for reason in reasons] == ["mcp-generated", "this"]


def test_lock_files_are_to_be_made_anew(tmp_path: Path) -> None:
    text = '[[package]]\nname = "mcp"\n'
    assert migrated(tmp_path, "uv.lock", text) == (text, ["make it anew: uv lock"])
    assert migrated(tmp_path, "poetry.lock", '[[package]]\nname = "other"\n')[1] == []


def test_settings_of_fastmcp_name_the_command(tmp_path: Path) -> None:
    text = (
        '{"source": {"path": "server.py", "entrypoint": "mcp"}, "environment": {"dependencies": ["fastmcp>=3", "a"]}}'
    )
    after, reasons = migrated(tmp_path, "fastmcp.json", text)
    assert after == text.replace("fastmcp>=3", OURS)
    assert reasons == ["nothing reads this file any more: write mcp-generated run server.py:mcp"]


def test_a_project_that_cannot_be_read_is_named_and_left(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project\n")
    [file] = Project(tmp_path, "compat").edited()
    assert file.error.startswith("cannot be read") and not file.is_changed


def test_environments_are_left_out(tmp_path: Path) -> None:
    for folder in (".venv", "env2", "node_modules"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.py").write_text(SERVER)
    (tmp_path / "env2" / "pyvenv.cfg").touch()
    assert Project(tmp_path, "compat").edited() == []
