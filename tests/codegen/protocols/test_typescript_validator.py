"""The plugin for TypeScript: its validator has the verdict of the schema on all test vectors, and its client talks to a
server in two revisions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli.commands import mcp_codegen
from support.languages import equal_examples, wrong_verdicts
from support.peers import node_peer
from support.project import ROOT, needs_official

from mcp_generated import REVISIONS

PLUGIN = ROOT / "examples" / "plugins" / "typescript.mjs"
COMPILER, NODE_TYPES = "typescript@5.9.3", "@types/node@20.19.9"
JUDGE = """import { createInterface } from "node:readline";

for await (const line of createInterface({ input: process.stdin })) {
  const { revision, type, instance } = JSON.parse(line);
  const { errorOf } = await import(`./${revision}/validate.js`);
  const error = errorOf(type, instance);
  console.log(JSON.stringify(error === undefined ? { written: instance } : { error }));
}
"""
TALK = """import { Client } from "./%s/client.js";

const [command, ...parameters] = process.argv.slice(2);
const client = await Client.start(command!, parameters, { name: "talk", version: "1" });
const listed = await client.request("tools/list", {});
const result = await client.request("tools/call", { name: "echo", arguments: { text: "Grüße" } });
for (const block of result.content) if (block.type === "text") console.log(listed.tools.length, block.text);
client.close();
"""
REVISIONS_OF_TALKS = ("2025-11-25", "2026-07-28")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what the plugin writes for each revision, compiled strictly."""
    compiler = node_peer(COMPILER) / "node_modules" / ".bin" / "tsc"
    types = node_peer(NODE_TYPES) / "node_modules" / "@types"
    folder = tmp_path_factory.mktemp("typescript")
    for revision in REVISIONS:
        done = mcp_codegen("plugin", "node", PLUGIN, "--revision", revision, "--output", folder / revision)
        assert done.returncode == 0, done.stderr
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (folder / "judge.mjs").write_text(JUDGE, encoding="utf-8")
    for revision in REVISIONS_OF_TALKS:
        (folder / f"talk-{revision}.ts").write_text(TALK % revision, encoding="utf-8")
    files = sorted(map(str, (*folder.glob("*.ts"), *folder.glob("*/*.ts"))))
    options = ["--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext"]
    command = [compiler, *options, "--skipLibCheck", "--types", "node", "--typeRoots", types, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stdout[:4000]
    return folder


def node() -> str:
    path = shutil.which("node")
    assert path is not None
    return path


@pytest.mark.long
def test_typescript_has_the_verdict_of_the_schema_on_all_vectors(compiled: Path) -> None:
    assert wrong_verdicts([node(), compiled / "judge.mjs"]) == []


@pytest.mark.exhaustive
@needs_official
def test_typescript_accepts_the_official_examples(compiled: Path) -> None:
    assert equal_examples([node(), compiled / "judge.mjs"]) == 129


@pytest.mark.long
@pytest.mark.parametrize("spoken", REVISIONS_OF_TALKS)
def test_the_client_in_typescript_calls_a_tool_over_stdio(compiled: Path, spoken: str) -> None:
    command = [
        node(),
        compiled / f"talk-{spoken}.js",
        sys.executable,
        ROOT / "examples" / "echo" / "server.py",
        "stdio",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, encoding="utf-8")
    assert (done.stdout, done.returncode) == ("2 Grüße\n", 0), done.stderr[:4000]
