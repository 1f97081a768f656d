"""Bindings of other protocols are generated from their documents, type-checked, and talk to programs of others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.checkers import mypy
from support.peers import clean, node_peer, python_peer, started
from support.project import ROOT

PROGRAMS = ROOT / "tests" / "support" / "protocols"
MANIFESTS = ROOT / "examples" / "protocols"
ACP_DOCUMENT = "@agentclientprotocol/sdk@2.4.0"
ACP_AGENT = "agent-client-protocol==0.12.1"
LANGUAGE_SERVER = "python-lsp-server==1.15.0 pyflakes==4.1.0 lsprotocol==2025.0.0 ruff==0.17.6"
DEBUG_ADAPTER = "debugpy==1.8.22"
A2A_SDK = "a2a-sdk[http-server]==0.3.26 uvicorn==0.38.0"


def generate(folder: Path, name: str, document: Path, package: str) -> None:
    """Generate bindings as a user does: a manifest beside the document, and one command."""
    manifest = shutil.copy(MANIFESTS / f"{name}.toml", folder)
    written = next(
        line for line in Path(manifest).read_text(encoding="utf-8").splitlines() if line.startswith("document")
    )
    shutil.copy(document, folder / written.split('"')[1])
    command = [sys.executable, "-m", "mcp_codegen", "protocol", manifest, "--output", str(folder / package)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def talk(folder: Path, program: str, *arguments: str) -> Any:
    """Type-check a program beside its bindings, run it, and return what it prints."""
    script = Path(shutil.copy(PROGRAMS / program, folder))
    assert mypy(folder, str(script)) == []
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.exhaustive
def test_bindings_of_acp_talk_to_an_agent_of_the_official_sdk(tmp_path: Path) -> None:
    package = node_peer(ACP_DOCUMENT) / "node_modules" / "@agentclientprotocol" / "sdk"
    generate(tmp_path, "acp", package / "schema" / "v1" / "schema.json", "acp_bindings")
    events = talk(tmp_path, "talk_acp.py", str(python_peer(ACP_AGENT)), str(PROGRAMS / "acp_agent.py"))
    assert events == [1, "session in /home", "end_turn", -32601, ["hello, notes, yes"], ["/notes.txt"]]


def meta_model(python: Path, folder: Path) -> Path:
    """Return metaModel.json: the official one that MCP_META_MODEL names, or one of the types of lsprotocol."""
    if named := os.environ.get("MCP_META_MODEL"):
        return Path(named)
    converted = folder / "converted.json"
    printed = subprocess.run(
        [python, PROGRAMS / "lsp_meta_model.py"], capture_output=True, text=True, check=True, timeout=60
    )
    converted.write_text(printed.stdout, encoding="utf-8")
    return converted


@pytest.mark.exhaustive
def test_bindings_of_lsp_talk_to_two_language_servers(tmp_path: Path) -> None:
    python = python_peer(LANGUAGE_SERVER)
    generate(tmp_path, "lsp", meta_model(python, tmp_path), "lsp_bindings")
    name, lines, hover, definition = talk(tmp_path, "talk_lsp.py", str(tmp_path), str(python), "-m", "pylsp")
    assert (name, lines, definition) == ("pylsp", [0, 4], [3])
    assert "area(side: int) -> int" in hover
    command = [str(python.with_name("ruff")), "server", "--isolated"]
    name, lines, hover, definition = talk(tmp_path, "talk_lsp.py", str(tmp_path), *command)
    assert (name, lines, hover, definition) == ("ruff", [0, 4], "", [])


@pytest.mark.exhaustive
def test_the_types_of_the_debug_adapter_protocol_can_be_imported_and_checked(tmp_path: Path) -> None:
    python = python_peer(DEBUG_ADAPTER)
    document = next(python.parent.parent.rglob("debugProtocol.json"))
    generate(tmp_path, "dap", document, "dap_bindings")
    script = tmp_path / "use.py"
    script.write_text(
        "from dap_bindings import types as t\n"
        "points = [t.SourceBreakpoint(line=3)]\n"
        "arguments = t.SetBreakpointsArguments(source=t.Source(path='a.py'), breakpoints=points)\n"
        "print(t.SetBreakpointsRequest(seq=1, arguments=arguments).to_dict())\n"
    )
    assert mypy(tmp_path, str(script)) == []
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    printed = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert "'command': 'setBreakpoints'" in printed.stdout, printed.stderr
    assert "'type': 'request'" in printed.stdout


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="the programs of peers have other places there")
@pytest.mark.parametrize("console", ["internalConsole", "integratedTerminal"])
def test_bindings_of_dap_debug_a_program_with_debugpy(console: str, tmp_path: Path) -> None:
    """In a terminal, the adapter asks the client to start the program: a request of the other direction."""
    python = python_peer(DEBUG_ADAPTER)
    generate(tmp_path, "dap", next(python.parent.parent.rglob("debugProtocol.json")), "dap_bindings")
    assert talk(tmp_path, "talk_dap.py", str(tmp_path), console, str(python)) == {
        "configuration": True,
        "verified": [True],
        "stop": ["breakpoint", "area", 5, "700"],
        "refused": True,
        "output": "49" if console == "internalConsole" else "",
        "commands": int(console == "integratedTerminal"),
        "code": 3,
    }


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="the programs of peers have other places there")
def test_bindings_of_a2a_talk_to_an_agent_of_the_official_sdk_over_http(tmp_path: Path) -> None:
    python = python_peer(A2A_SDK)
    command = [str(python), str(PROGRAMS / "a2a_document.py")]
    document = tmp_path / "document.json"
    document.write_text(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)
    generate(tmp_path, "a2a", document, "a2a_bindings")
    agent = started([str(python), str(PROGRAMS / "a2a_agent.py")], clean(), "listening at ")
    try:
        events = talk(tmp_path, "talk_a2a.py", agent.output.split()[-1])
    finally:
        agent.process.kill()
        agent.process.wait()
    assert events == [
        ["completed", ["one", "two"]],
        ["task", "artifact-update", "three", "artifact-update", "four", "status-update"],
        "completed",
        ["canceled", "status-update"],
        [-32001, "Task not found"],
        True,
    ]
