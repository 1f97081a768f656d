"""Plugins: programs that get the IR and print files; and what the IR says of versions, formats and openness."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mcp_codegen.cli.main import main
from mcp_generated import REVISIONS

NEWEST, OLDEST = list(REVISIONS)[-1], next(iter(REVISIONS))
NAMES = """
import json, sys
ir = json.load(sys.stdin)
names = " ".join(sorted(ir["revision"]["types"]))
print(json.dumps({"files": {"names.txt": names, "deep/down.txt": ir["revision"]["id"]}}))
"""


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def plugin(folder: Path, program: str, *words: str) -> Result:
    """Run a plugin written in Python."""
    script = folder / "plugin.py"
    script.write_text(program, encoding="utf-8")
    return run("plugin", *words, "--revision", NEWEST, "--output", folder / "out", "--", sys.executable, script)


@pytest.mark.long
def test_a_plugin_writes_files_of_the_ir_in_one_step(tmp_path: Path) -> None:
    result = plugin(tmp_path, NAMES)
    assert result.exit_code == 0, result.output
    assert "CallToolResult" in (tmp_path / "out" / "names.txt").read_text().split()
    assert (tmp_path / "out" / "deep" / "down.txt").read_text() == NEWEST
    assert plugin(tmp_path, NAMES, "--check").exit_code == 0
    (tmp_path / "out" / "names.txt").write_text("old")
    assert plugin(tmp_path, NAMES, "--check").exit_code == 1
    assert (tmp_path / "out" / "names.txt").read_text() == "old"


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("print('hello')", "must print"),
        ("print('{\"files\": {}}')", "must print"),
        ('print(\'{"files": {"a": 1}}\')', "must print"),
        ("print('[]')", "must print"),
        ("raise SystemExit('out of ideas')", "exit code 1: out of ideas"),
        *(
            (f'print(\'{{"files": {{"{path}": "x"}}}}\')', "is not a path inside")
            for path in ("../x", "/x", "a/../../x", "c:x")
        ),
        (r"""print('{"files": {"a": "\\ud800"}}')""", "must print"),
    ],
)
def test_a_plugin_that_prints_something_else_writes_nothing(tmp_path: Path, program: str, text: str) -> None:
    result = plugin(tmp_path, program)
    assert result.exit_code == 2
    assert text in result.output
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "x").exists()


def test_a_program_that_is_not_there_is_refused(tmp_path: Path) -> None:
    result = run("plugin", "--revision", NEWEST, "--output", tmp_path / "out", "no-such-program")
    assert result.exit_code == 2 and "cannot be started" in result.output
    result = run("plugin", "--output", tmp_path / "out", "cat")
    assert result.exit_code == 2 and "either --revision R or --protocol FILE" in result.output


def dumped(revision: str) -> dict[str, Any]:
    result = run("ir", "--revision", revision)
    assert result.exit_code == 0, result.output
    loaded: dict[str, Any] = json.loads(result.output)
    return loaded


def test_the_ir_says_since_when_and_until_when_and_where_each_type_and_property_is() -> None:
    newest, oldest = dumped(NEWEST)["history"], dumped(OLDEST)["history"]
    assert (newest["Tool"]["since"], newest["Tool"]["removed"]) == (OLDEST, None)
    assert newest["Tool"]["anchor"] == f"https://modelcontextprotocol.io/specification/{NEWEST}/schema#tool"
    assert newest["Tool"]["fields"]["name"] == {"since": OLDEST, "removed": None}
    assert newest["Tool"]["fields"]["annotations"]["since"] == "2025-03-26"
    assert newest["Tool"]["fields"]["outputSchema"]["since"] == "2025-06-18"
    assert oldest["PingRequest"]["removed"] == NEWEST
    assert oldest["InitializeResult"]["fields"]["instructions"]["removed"] == NEWEST


def test_the_ir_has_formats_and_openness() -> None:
    types = dumped("2025-06-18")["revision"]["types"]
    formats = {field["wire"]: field["type"].get("format") for field in types["Resource"]["fields"]}
    assert formats["uri"] == "uri" and formats["name"] == ""
    assert types["Result"]["open"] and not types["Tool"]["open"] and not types["Tool"]["closed"]


def test_the_ir_of_another_protocol_has_the_same_form(tmp_path: Path) -> None:
    document = {"openrpc": "1.3.2", "info": {"version": "1"}, "methods": [{"name": "log", "params": []}]}
    (tmp_path / "rpc.json").write_text(json.dumps(document | {"components": {"schemas": {"A": {"type": "string"}}}}))
    (tmp_path / "protocol.toml").write_text('name = "Small"\ndocument = "rpc.json"\nformat = "open-rpc"\n')
    result = run("ir", "--protocol", tmp_path / "protocol.toml")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.output)
    assert (shown["ir"], shown["tables"], shown["revision"]["protocol"]) == (2, {}, "Small")
    assert shown["history"] == {"A": {"anchor": "", "since": "1", "removed": None, "fields": {}}}
