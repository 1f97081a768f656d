"""A server that does not start: the report says the reason, in every language, and what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lint.test_reading import read

from mcp_products.lint import Snapshot, lint
from mcp_products.lint.broken import reason_of
from mcp_products.lint.report import head_of

NODE = """node:internal/modules/cjs/loader:1148
  throw err;
  ^
Error: Cannot find module '/shop/index.js'
at Module._resolveFilename (node:internal/modules/cjs/loader:1145:15)
code: 'MODULE_NOT_FOUND',
requireStack: []
}
Node.js v20.20.2"""
PYTHON = """Traceback (most recent call last):
File "/shop/server.py", line 1, in <module>
import shop
^^^^^^^^^^^
ModuleNotFoundError: No module named 'shop'"""
GO = "panic: no database\ngoroutine 1 [running]:\nmain.main()\nexit status 2"
RUST = "thread 'main' panicked at src/main.rs:2:5:\nno database\nnote: run with `RUST_BACKTRACE=1` environment variable"
OURS = (
    "mcp_runtime.errors.LocalError: it needs jsonschema-rs\nsee https://mcp-codegen.example/docs/troubleshooting.html"
)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (NODE, "Error: Cannot find module '/shop/index.js'"),
        (PYTHON, "ModuleNotFoundError: No module named 'shop'"),
        (GO, "panic: no database"),
        (RUST, "thread 'main' panicked at src/main.rs:2:5: no database"),
        (OURS, "mcp_runtime.errors.LocalError: it needs jsonschema-rs"),
        ("usage: shop [options]", "usage: shop [options]"),
        ("", ""),
    ],
)
def test_the_reason_is_not_the_last_line_in_every_language(output: str, reason: str) -> None:
    assert reason_of(output.splitlines()) == reason


def program(text: str, timeout: float = 30.0) -> Snapshot:
    return read(Snapshot(name="shop", command=[sys.executable, "-c", text]), timeout=timeout)


@pytest.mark.parametrize(
    ("text", "broken", "remedy"),
    [
        ("", "it has ended with exit code 0", "let the program serve until its input ends"),
        ("exit(3)", "it has ended with exit code 3", "start the command in a terminal"),
        ("import nothing_at_all", "No module named 'nothing_at_all'", "pass the Python that has the packages"),
        (
            "import sys\nfor line in sys.stdin: print(line, end='', flush=True)",
            "it answers initialize with its own request",
            "this program writes back what it reads",
        ),
        ("while True: print('y' * 8)", "it writes lines without end", "standard output has messages alone"),
    ],
)
def test_a_program_that_is_no_server_is_told_what_it_does(text: str, broken: str, remedy: str) -> None:
    snapshot = program(text)
    assert broken in snapshot.broken
    (finding,) = [row for row in lint(snapshot) if row.rule.name == "start-failed"]
    assert remedy in finding.write
    assert head_of(snapshot) == "shop: has not started"


def test_a_program_that_has_ended_before_it_is_written_to_is_told_with_its_exit_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = subprocess.Popen

    def started(*arguments: Any, **options: Any) -> Any:
        process = start(*arguments, **options)
        process.wait()
        return process

    monkeypatch.setattr(subprocess, "Popen", started)
    assert "it has ended with exit code 3" in program("exit(3)").broken


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        ("server.js", "-- node "),
        ("server.ts", "-- npx tsx "),
        ("C:\\shop\\server.py", "-- python "),
        ("shop", "install this program, or pass its whole path"),
        (".", "pass the file of the server in this folder"),
    ],
)
def test_a_command_that_is_not_there_is_named_with_what_to_pass(word: str, remedy: str) -> None:
    (finding,) = lint(read(Snapshot(command=[word])))
    assert finding.rule.name == "start-failed" and remedy in finding.write


def test_a_file_that_may_not_be_executed_says_so(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("#!/bin/sh\n")
    (finding,) = lint(read(Snapshot(command=[str(tmp_path / "shop")])))
    assert finding.write == f"let it be executed: chmod +x {tmp_path / 'shop'}"


def test_a_url_that_nobody_serves_is_no_finding_about_its_tools() -> None:
    (finding,) = lint(read(Snapshot(url="http://127.0.0.1:9/mcp")))
    assert (finding.message, finding.write) == (
        "Connection refused",
        "start the server at this address, or pass another",
    )
