"""The forms of a bundle: with the packages of chosen systems, of a program of Node, and of one that runs itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from support.cli.commands import mcp_codegen
from support.installation.distributions import built_distributions
from support.peers import clean, node_peer, python_peer

from mcp_codegen.cli.authors import authors
from mcp_codegen.errors import CodegenError
from mcp_codegen.servers.bundle import MANIFESTS, command_form, packages_of, starter, uv_form

VALIDATOR: Final = "@anthropic-ai/mcpb@2.1.2"
THIS: Final = f"3.{sys.version_info[1]}"


def wheel(folder: Path, name: str, tag: str, files: Mapping[str, str], requires: str = "") -> None:
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-{tag}.whl", "w") as archive:
        for place, text in files.items():
            archive.writestr(place, text)
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.mark.long
def test_packages_are_those_of_each_system_with_its_own_requirements(index: Path) -> None:
    need = 'colours; sys_platform == "win32"'
    for tag, name, end in (("manylinux2014_x86_64", "native.so", "\n"), ("win_amd64", "native.pyd", "\r\n")):
        wheel(index, "shop", f"cp312-cp312-{tag}", {"shop/__init__.py": f"A = 1{end}", f"shop/{name}": tag}, need)
    wheel(index, "colours", "py3-none-any", {"colours.py": "", "colours-1.0.data/purelib/more.py": ""})
    linux = packages_of(["shop"], ["linux-x86_64"], ["3.12"])
    both = packages_of(["shop"], ["linux-x86_64", "windows-x86_64"], ["3.12"])
    assert "site-packages/shop/native.so" in linux and not any("colours" in name for name in linux)
    names = {"shop/native.so", "shop/native.pyd", "shop/__init__.py", "colours.py", "more.py"}
    assert {f"site-packages/{name}" for name in names} <= both.keys()
    with pytest.raises(CodegenError, match=r"linux-x86_64 and Python 3\.13: No matching distribution found for shop"):
        packages_of(["shop"], ["linux-x86_64"], ["3.13"])


@pytest.mark.long
def test_two_files_of_one_name_need_a_bundle_each(index: Path) -> None:
    for machine in ("arm64", "x86_64"):
        wheel(index, "shop", f"cp312-cp312-macosx_11_0_{machine}", {"shop/native.so": machine})
    with pytest.raises(CodegenError, match="make a bundle for each: pass one --for and one --python"):
        packages_of(["shop"], ["macos-arm64", "macos-x86_64"], ["3.12"])


def run_start(folder: Path, pythons: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    files = {"src/shop/server.py": b"", "src/shop/__init__.py": b""}
    (folder / "start.py").write_bytes(starter("src/shop/server.py", files, pythons))
    return subprocess.run([sys.executable, "-I", "start.py"], cwd=folder, capture_output=True, text=True, timeout=60)


def test_the_start_of_a_bundle_finds_its_packages_and_refuses_another_python(tmp_path: Path) -> None:
    for place, text in (
        ("site-packages/brought.py", "NAME = 'brought along'"),
        ("src/shop/__init__.py", ""),
        ("src/shop/beside.py", ""),
        (
            "src/shop/server.py",
            "import beside, shop.beside, brought\nprint(brought.NAME)",
        ),
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    assert run_start(tmp_path, (THIS,)).stdout == "brought along\n"
    refused = run_start(tmp_path, ("3.5", "3.6"))
    assert refused.stderr.startswith(f"error: this bundle is for Python 3.5 or 3.6, and Python {THIS}.")
    assert refused.returncode == 1


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("node", "dist/index.js", "--a"), ("node", "dist/index.js", "node", ("${__dirname}/dist/index.js", "--a"))),
        (("C:\\node\\node.exe", "dist/index.js"), ("node", "dist/index.js", "node", ("${__dirname}/dist/index.js",))),
        (("./shop", "--a"), ("binary", "shop", "${__dirname}/shop", ("--a",))),
    ],
)
def test_a_program_is_started_from_the_folder_of_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], expected: tuple[Any, ...]
) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/index.js").touch()
    (tmp_path / "shop").touch(0o755)
    monkeypatch.chdir(tmp_path)
    form = command_form(command, tmp_path.resolve(), {}, None)
    assert (form.kind, form.entry_point, form.command, form.arguments) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "npx", "shop"], "a bundle has the server itself: pass its Python file, -- node FILE, or -- ./PROGRAM"),
        (["--", "node"], "node: which file does it run? pass -- node dist/index.js"),
        (["shop.js"], "shop.js: is not a Python file; pass another program as a command: -- node dist/index.js"),
        (["https://shop.example/mcp"], "not a Python file; pass another program as a command: -- node dist/index.js"),
        ([], "pack takes one server: a Python file, or -- and its command"),
        (["server.py", "--for", "this", "--python", "4"], "--python 4: is a version such as 3.12"),
    ],
)
def test_what_cannot_be_packed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text("from shop import app\napp.run()\n")
    result = CliRunner().invoke(authors, ["pack", *words])
    assert result.exit_code == 2 and result.output.endswith(f"{message}\n"), result.output


def test_the_type_uv_needs_the_newest_manifest() -> None:
    with pytest.raises(CodegenError, match=r"manifest 0\.2 has no type uv; pass --manifest 0\.4, or --for"):
        uv_form("server.py", {}, "0.2")


def test_a_program_of_node_is_packed_with_its_packages_and_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = {"server": {"serverInfo": {"name": "memory", "version": "1"}}, "tools": [], "prompts": []}
    monkeypatch.setattr("mcp_codegen.cli.apps.pack.probe_json", lambda *_: answered)
    monkeypatch.chdir(tmp_path)
    package = {
        "name": "@somebody/shop",
        "version": "1.2.0",
        "author": "Somebody <a@shop.example> (https://shop.example)",
    }
    for place, text in (
        ("package.json", json.dumps(package)),
        ("dist/index.js", "process.env.SHOP_API_KEY; process.env['SHOP_REGION']; process.env.NODE_ENV"),
        ("node_modules/other/index.js", "process.env.OTHER"),
        ("node_modules/.bin/other", ""),
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    result = CliRunner().invoke(authors, ["pack", "--", "node", "dist/index.js"])
    assert result.exit_code == 0, result.output
    with zipfile.ZipFile(tmp_path / "somebody-shop-1.2.0.mcpb") as opened:
        names = ["dist/index.js", "manifest.json", "node_modules/other/index.js", "package.json"]
        assert opened.namelist() == names
        manifest = json.loads(opened.read("manifest.json"))
    assert manifest["author"] == {"name": "Somebody", "email": "a@shop.example"}
    assert manifest["user_config"].keys() == {"shop_api_key", "shop_region"}


# ---- the official validator, and the start of a host -----------------------------------------------------------------

OURS: Final = """from mcp_generated import App

app = App("shop", version="1.2.0")


@app.tool()
def price(item: str) -> int:
    \"\"\"Return a price.\"\"\"
    return len(item)


if __name__ == "__main__":
    app.run("stdio")
"""
THEIRS: Final = OURS.replace("mcp_generated import", "mcp.server.mcpserver import").replace("App", "MCPServer")
PROJECT: Final = '[project]\nname = "shop"\nversion = "1.2.0"\ndescription = "A shop."\ndependencies = ["{}"]\n'
OPENING: Final = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}


def opened(bundle: Path, folder: Path) -> dict[str, Any]:
    """Unpack a bundle as a host does, and let the official validator judge its manifest."""
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder)
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    validate(manifest, folder / "manifest.json")
    return manifest


def validate(manifest: dict[str, Any], file: Path) -> None:
    file.write_text(json.dumps(manifest), encoding="utf-8")
    program = node_peer(VALIDATOR) / "node_modules" / ".bin" / "mcpb"
    done = subprocess.run([str(program), "validate", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def called(config: dict[str, Any], folder: Path) -> Any:
    """Start what a manifest says with the few variables of a host, and return what its tool answers."""
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPENING},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "price", "arguments": {"item": "tea"}}},
    ]
    words = [word.replace("${__dirname}", str(folder)) for word in (config["command"], *config["args"])]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PATH": path}, cwd=folder.parent
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        answer: dict[str, Any] = {}
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline()) if "id" in message else {}
        process.stdin.close()
    return answer["result"]["structuredContent"]


@pytest.mark.edges("mcp-generated")
@pytest.mark.long
@pytest.mark.deadline(300)
@pytest.mark.parametrize(("source", "requirement"), [(OURS, "mcp-generated"), (THEIRS, "mcp==2.3.0")])
def test_the_official_validator_takes_each_form_and_a_host_starts_it(
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    requirement: str,
) -> None:
    links = str(built_distributions(tmp_path_factory)), clean().get("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_FIND_LINKS", " ".join(links).strip())
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "server.py").write_text(source)
    (folder / "pyproject.toml").write_text(PROJECT.format(requirement))
    if source is THEIRS:
        (folder / ".venv").symlink_to(python_peer("mcp==2.3.0").parent.parent)
    done = mcp_codegen("pack", "server.py", folder=folder)
    assert done.returncode == 0, done.stderr
    assert opened(folder / "shop-1.2.0.mcpb", tmp_path / "uv")["server"]["type"] == "uv"
    done = mcp_codegen("pack", "server.py", "--for", "this", "--output", "../whole.mcpb", folder=folder)
    assert done.returncode == 0, done.stderr
    manifest = opened(tmp_path / "whole.mcpb", tmp_path / "whole")
    assert (manifest["manifest_version"], manifest["server"]["type"]) == ("0.3", "python")
    for version in MANIFESTS:
        validate({**manifest, "manifest_version": version}, tmp_path / f"{version}.json")
    checked = mcp_codegen("pack", "../whole.mcpb", "--check", folder=folder)
    assert checked.stdout == "../whole.mcpb: no problems\n"
    assert called(manifest["server"]["mcp_config"], tmp_path / "whole") == {"result": 3}
