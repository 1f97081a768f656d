"""`mcp-generated pack`: a bundle from the running server, what is left out of it, and a start as a host does it."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.cli.commands import INSTALLED, LIMIT, mcp_codegen

from mcp_codegen.cli.authors import authors
from mcp_codegen.errors import CodegenError
from mcp_codegen.servers.bundle import archive, files_of, problems_of, variables_read
from mcp_codegen.servers.probe import runs_itself

SERVER = """
import os
from mcp_generated import App

app = App("shop", version="1.0.0", title="The shop")
KEY = os.environ["SHOP_API_KEY"]
REGION = os.getenv("SHOP_REGION", "eu")
PROXY = os.environ.get("SHOP_PROXY")
TOKEN = os.getenv("SHOP_TOKEN", "of the developer")
HOME = os.environ["HOME"]

@app.tool()
def region() -> str:
    \"\"\"Return the region of the shop.\"\"\"
    return REGION

@app.prompt()
def greet(name: str) -> str:
    \"\"\"Greet somebody.\"\"\"
    return name

if __name__ == "__main__":
    app.run("stdio")
"""
PROJECT = """[project]
name = "shop"
version = "1.2.0"
description = "What the shop sells."
requires-python = ">=3.11,<3.15"
authors = [{ name = "Somebody", email = "somebody@shop.example" }]
dependencies = ["mcp-generated"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    for place, text in (
        ("server.py", SERVER),
        ("pyproject.toml", PROJECT),
        ("data/prices.csv", "a,1\n"),
        (".env", "SHOP_API_KEY=secret\n"),
        ("tests/test_server.py", ""),
        (".venv/pyvenv.cfg", ""),
        ("old.mcpb", ""),
    ):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(text)
    return root


def packed(folder: Path) -> Path:
    done = mcp_codegen("pack", "server.py", "--env", "SHOP_API_KEY=secret", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "shop-1.2.0.mcpb"


def manifest_in(bundle: Path) -> dict[str, Any]:
    with zipfile.ZipFile(bundle) as archive_:
        document: dict[str, Any] = json.loads(archive_.read("manifest.json"))
    return document


@pytest.mark.skipif(os.name == "nt", reason="links of POSIX systems")
def test_a_bundle_is_not_written_through_a_link(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = {"server": {"serverInfo": {"name": "shop", "version": "1.0.0"}}, "tools": [], "prompts": []}
    monkeypatch.setattr("mcp_codegen.cli.apps.pack.probe_json", lambda *_: answered)
    monkeypatch.chdir(folder)
    hook, bundle = folder / "hook", folder / "shop-1.2.0.mcpb"
    bundle.symlink_to(hook)
    refused = CliRunner().invoke(authors, ["pack", "server.py"])
    assert refused.exit_code == 2 and "is a link to" in refused.output, refused.output
    assert not hook.exists()
    bundle.unlink()
    bundle.write_bytes(b"an older one")
    assert CliRunner().invoke(authors, ["pack", "server.py"]).exit_code == 0
    assert zipfile.is_zipfile(bundle) and not [*folder.glob("*.tmp")]


@pytest.mark.long
def test_a_bundle_has_the_source_and_what_the_running_server_says(folder: Path) -> None:
    bundle = packed(folder)
    with zipfile.ZipFile(bundle) as opened:
        assert opened.namelist() == ["data/prices.csv", "manifest.json", "pyproject.toml", "server.py"]
        assert b"secret" not in b"".join(opened.read(name) for name in opened.namelist())
    manifest = manifest_in(bundle)
    assert (manifest["name"], manifest["version"], manifest["display_name"]) == ("shop", "1.2.0", "The shop")
    assert manifest["author"] == {"name": "Somebody", "email": "somebody@shop.example"}
    assert manifest["tools"] == [{"name": "region", "description": "Return the region of the shop."}]
    assert manifest["prompts_generated"] is True
    assert manifest["compatibility"] == {"runtimes": {"python": ">=3.11 <3.15"}}
    key, region = manifest["user_config"]["shop_api_key"], manifest["user_config"]["shop_region"]
    assert (key["required"], key["sensitive"]) == (True, True)
    assert (region["required"], region["default"]) == (False, "eu")
    proxy, token = manifest["user_config"]["shop_proxy"], manifest["user_config"]["shop_token"]
    assert (proxy["required"], proxy["default"]) == (False, "")  # Else hosts pass the text ${user_config.shop_proxy}.
    assert (token["required"], token["sensitive"], token["default"]) == (False, True, "")
    assert manifest["user_config"].keys() == {"shop_api_key", "shop_region", "shop_proxy", "shop_token"}


@pytest.mark.long
@pytest.mark.skipif(shutil.which("uv", path=str(Path(sys.executable).parent)) is None, reason="uv is not installed")
def test_a_bundle_starts_as_a_host_starts_it(folder: Path, tmp_path: Path) -> None:
    """Unpack it, put values where the manifest says, and talk to the process."""
    unpacked = tmp_path / "installed"
    with zipfile.ZipFile(packed(folder)) as opened:
        opened.extractall(unpacked)
    config = json.loads((unpacked / "manifest.json").read_text())["server"]["mcp_config"]
    values = {"${__dirname}": str(unpacked), "${user_config.shop_api_key}": "k", "${user_config.shop_region}": "us"}

    def put(text: str) -> str:
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    environment = Path(sys.executable).parent.parent  # The packages are installed already: no network.
    uv = {"UV_PROJECT_ENVIRONMENT": str(environment), "UV_NO_SYNC": "1", "UV_OFFLINE": "1"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {name: put(value) for name, value in config["env"].items()}
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "region", "arguments": {}}},
    ]
    done = subprocess.run(
        [config["command"], *map(put, config["args"])],
        env={**os.environ, **INSTALLED, **uv, **variables, "PATH": path},
        input="".join(json.dumps(message) + "\n" for message in messages),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["result"]["content"][0]["text"] == "us"


def test_the_same_files_are_the_same_bytes(folder: Path) -> None:
    first = archive(files_of(folder))
    (folder / "server.py").touch()
    assert archive(files_of(folder)) == first


def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "private.txt").write_text("x")
    (folder / "data/private.txt").symlink_to(tmp_path / "private.txt")
    with pytest.raises(CodegenError, match="is a link out of the folder"):
        files_of(folder)


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("app = App('a')", False),
        ("def main():\n    app.run()", False),
        ("app.run()", True),
        ("if __name__ == '__main__':\n    main()", True),
    ],
)
def test_a_file_has_to_run_its_server(text: str, runs: bool) -> None:
    assert runs_itself(ast.parse(text)) is runs


def test_a_server_that_does_not_run_itself_is_told_the_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "server.py").write_text("from mcp_generated import App\nshop = App('shop')\n")
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(authors, ["pack", "server.py:shop"])
    assert result.exit_code == 2
    assert result.output.endswith('does not run its server; add: if __name__ == "__main__": shop.run("stdio")\n')


def test_variables_are_found_in_each_form() -> None:
    source = b"import os\nos.environ['A']\nos.environ.get('B')\nos.getenv('C', 'x')\nos.environ['D'] = 'set'\n"
    assert variables_read({"a.py": source, "b.txt": b"os.environ['E']"}) == {"A": None, "B": "", "C": "x"}


# Each row changes a manifest without a problem, and says what is reported.
GOOD: dict[str, Any] = {
    "manifest_version": "0.4",
    "name": "shop",
    "version": "1.0.0",
    "description": "A shop.",
    "author": {"name": "Somebody"},
    "server": {
        "type": "uv",
        "entry_point": "server.py",
        "mcp_config": {"command": "uv", "args": ["run", "server.py"], "env": {"A": "${user_config.a}"}},
    },
    "user_config": {"a": {"type": "string", "title": "A", "description": "The a."}},
}
NAMES = ["manifest.json", "pyproject.toml", "server.py"]


def changed(place: str, value: object) -> dict[str, Any]:
    document = json.loads(json.dumps(GOOD))
    *parents, last = place.split(".")
    target = document
    for part in parents:
        target = target.setdefault(part, {})
    target[last] = value
    return dict(document)


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        ("manifest_version", "9", "manifest_version is '9'"),
        ("inputSchema", {}, "inputSchema: no key of manifest 0.4"),
        ("version", "latest", "version 'latest' is not a version"),
        ("description", "", "description is missing or empty"),
        ("author", {}, "author.name is missing"),
        ("server.type", "docker", "server.type is 'docker'"),
        ("server.entry_point", "main.py", "server.entry_point 'main.py' is not in the bundle"),
        ("server.mcp_config", None, "server.mcp_config.command is missing"),
        ("server.mcp_config.env", {"A": "${user_config.b}"}, "${user_config.b} is not declared"),
        ("server.mcp_config.cwd", "/", "server.mcp_config.cwd: no key of a manifest"),
        ("user_config.b", {"type": "string", "title": "B", "description": "B"}, "user_config.b is used nowhere"),
        ("user_config.a", {"type": "text", "title": "A", "description": "A"}, "user_config.a.type is one of"),
        ("user_config.a", {"type": "string"}, "user_config.a needs title and description"),
        ("compatibility.platforms", ["mac"], "compatibility.platforms has 'mac'"),
        ("compatibility.runtimes.python", ">=3.11,<3.15", "a range has spaces and no commas: '>=3.11 <3.15'"),
    ],
)
def test_what_no_host_can_start_is_reported(place: str, value: object, problem: str) -> None:
    assert list(problems_of(GOOD, NAMES)) == []
    assert [line for line in problems_of(changed(place, value), NAMES) if problem in line] != []


def test_older_manifests_have_fewer_keys_and_no_uv() -> None:
    lines = list(problems_of({**GOOD, "manifest_version": "0.2", "icons": []}, NAMES))
    assert "icons: no key of manifest 0.2" in lines
    assert any(line.startswith("server.type is 'uv'; manifest 0.2 has") for line in lines)
    assert "a bundle of type uv needs a pyproject.toml with its dependencies" in list(problems_of(GOOD, ["server.py"]))
