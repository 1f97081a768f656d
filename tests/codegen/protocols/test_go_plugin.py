"""The plugin for Go: its validator has the verdict of the schema on all test vectors, and its types lose nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli.commands import mcp_codegen
from support.languages import equal_examples, wrong_verdicts
from support.project import ROOT, needs_official

from mcp_generated import REVISIONS

PLUGIN = ROOT / "examples" / "plugins" / "go.py"
MAIN = """package main

import (
	"bufio"
	"encoding/json"
	"os"
%s)

var parse = map[string]func(string, []byte) (any, error){%s}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var line struct{ Revision, Type string; Instance json.RawMessage }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			panic(err)
		}
		read, err := parse[line.Revision](line.Type, line.Instance)
		if err != nil {
			answers.Encode(map[string]any{"error": err.Error()})
		} else {
			answers.Encode(map[string]any{"written": read})
		}
	}
}
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that reads instances with the Go that the plugin writes for each revision."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go compiler: `go` is not on the PATH")
    folder = tmp_path_factory.mktemp("go")
    (folder / "go.mod").write_text("module example.test/judge\n\ngo 1.22\n", encoding="utf-8")
    for revision, name in REVISIONS.items():
        done = mcp_codegen("plugin", sys.executable, PLUGIN, "--revision", revision, "--output", folder / name)
        assert done.returncode == 0, done.stderr
    imports = "".join(f'\t{name} "example.test/judge/{name}"\n' for name in REVISIONS.values())
    table = ", ".join(f'"{revision}": {name}.Parse' for revision, name in REVISIONS.items())
    (folder / "main.go").write_text(MAIN % (imports, table), encoding="utf-8")
    built = subprocess.run(
        [go, "build", "-o", "judge", "."],
        cwd=folder,
        env={**os.environ, "GOTOOLCHAIN": "local", "GOCACHE": str(ROOT / "build" / "go")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert built.returncode == 0, built.stderr[:4000]
    return folder / "judge"


@pytest.mark.exhaustive
def test_go_has_the_verdict_of_the_schema_on_all_vectors_and_writes_what_it_reads(judge: Path) -> None:
    assert wrong_verdicts([judge]) == []


@pytest.mark.long
@needs_official
def test_go_reads_and_writes_the_official_examples(judge: Path) -> None:
    assert equal_examples([judge]) == 129
