"""The plugin for TypeScript: its types and those of the official schema.ts are assignable to each other, strictly."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from support.cli.commands import mcp_codegen
from support.peers import node_peer
from support.project import ROOT
from support.schemas.specification import official_schemas

from mcp_generated import REVISIONS

COMPILER = "typescript@5.9.3"
PLUGIN = ROOT / "examples" / "plugins" / "typescript.mjs"
DECLARED = re.compile(r"^export (?:interface|type) (\w+)(?: extends|\s*[={])", re.MULTILINE)


@pytest.mark.long
def test_types_are_assignable_to_the_official_ones_and_back(tmp_path: Path) -> None:
    schemas = official_schemas(tmp_path / "specification")
    compiler = node_peer(COMPILER) / "node_modules" / ".bin" / "tsc"
    for revision in REVISIONS:
        folder = tmp_path / revision
        done = mcp_codegen("plugin", "node", PLUGIN, "--revision", revision, "--output", folder / "ours")
        assert done.returncode == 0, done.stderr
        official = (schemas / revision / "schema.ts").read_text(encoding="utf-8")
        (folder / "official.ts").write_text(official, encoding="utf-8")
        ours = set(DECLARED.findall((folder / "ours" / "types.ts").read_text(encoding="utf-8")))
        declared = DECLARED.findall(official)
        assert set(declared) - ours <= {"Annotated"}  # The IR has the Python name AnnotatedBase.
        names = [name for name in declared if name in ours]
        lines = [
            f"export const to{name}: O.{name} = null! as T.{name}; export const of{name}: T.{name} = null! as O.{name};"
            for name in names
        ]
        imports = ['import type * as O from "./official.js";', 'import type * as T from "./ours/types.js";']
        (folder / "check.ts").write_text("\n".join([*imports, *lines, 'import "./ours/methods.js";']), encoding="utf-8")
        assert len(names) >= 78, revision
    files = sorted(str(path) for path in tmp_path.glob("*/check.ts"))
    options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"]
    checked = subprocess.run([compiler, *options, *files], capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout[:4000]
