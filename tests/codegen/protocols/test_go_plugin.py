"""The plugin for Go: its validator has the verdict of the schema on all test vectors, and its types lose nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.installation.builds import build_once
from support.languages import equal_examples, write_revisions, wrong_verdicts
from support.project import needs_official

from mcp_generated import REVISIONS

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
    write_revisions("go.py", folder)
    imports = "".join(f'\t{name} "example.test/judge/{name}"\n' for name in REVISIONS.values())
    table = ", ".join(f'"{revision}": {name}.Parse' for revision, name in REVISIONS.items())
    (folder / "main.go").write_text(MAIN % (imports, table), encoding="utf-8")
    out = build_once(
        "plugin-go", folder, [(go, "build", "-trimpath", "-o", "{out}/judge", ".")], {"GOTOOLCHAIN": "local"}
    )
    return out / "judge"


@pytest.mark.long
def test_go_has_the_verdict_of_the_schema_on_all_vectors_and_writes_what_it_reads(judge: Path) -> None:
    assert wrong_verdicts([judge]) == []


@pytest.mark.long
@needs_official
def test_go_reads_and_writes_the_official_examples(judge: Path) -> None:
    assert equal_examples([judge]) == 129
