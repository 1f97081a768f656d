"""States that the specification's repository really had: each ends in a package that works, or in a report.

MCP_SPECIFICATION names a clone of it. benchmarks/generator/updates.py follows twenty commits; here two stand for them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.project import ROOT

from mcp_codegen.cli.main import main
from mcp_codegen.paths import source_of

SPECIFICATION = Path(os.environ.get("MCP_SPECIFICATION", "absent"))
PROBE = "from bindings import App, connect, vdraft; from bindings.vdraft import Client, Server, types; print(App)"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not SPECIFICATION.is_dir(), reason="MCP_SPECIFICATION names no clone of the specification"),
]


@pytest.mark.parametrize(
    ("commit", "code", "place"),
    [
        # Two types are gone, and no message is another one: programs that name the types are affected, nobody else.
        (
            "71e306956a4959c9655e5036be215d41986596e6",
            0,
            "| programs that name it | 2 | `SubscriptionsListenResultMeta`, ",
        ),
        ("f7e99af6417ec978233d8e27e1ac878b12106542", 2, "| agreement | `SubscriptionsListenResultMeta` |"),
    ],
)
def test_a_state_of_the_draft_ends_in_a_package_or_in_a_report(
    tmp_path: Path, commit: str, code: int, place: str
) -> None:
    root, package, report = tmp_path / "schema", tmp_path / "bindings", tmp_path / "report.md"
    shutil.copytree(ROOT / "schema", root)
    shutil.copytree(ROOT / "generated" / "mcp_generated", package)
    words = ["update", "--from", SPECIFICATION, "--ref", commit, "--schema", root, "--output", package]
    done = CliRunner().invoke(main, [str(word) for word in (*words, "--report", report, "--no-type-check")])
    assert done.exit_code == code, done.output
    assert place in report.read_text()
    assert (root / "draft").is_dir() == (package / "vdraft").is_dir() == (code == 0)
    path = os.pathsep.join([str(tmp_path), *(str(source_of(name).parent) for name in ("mcp_runtime", "mcp_products"))])
    if code == 0:
        subprocess.run([sys.executable, "-c", PROBE], env={**os.environ, "PYTHONPATH": path}, check=True)
