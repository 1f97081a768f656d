"""Python files go in, what mypy --strict and pyright strict say of them comes out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.file_locks import lock_file
from support.project import ROOT

# What mypy knows of the packages, which it needs most of its time to learn. All workers share it, one at a time:
# processes that write into one cache at once would damage it.
CACHE = ROOT / "build" / "mypy" / "shared"
PACKAGES = [ROOT / "codegen", ROOT / "runtime", ROOT / "products", ROOT / "generated"]


def mypy(folder: Path, *targets: str, also: tuple[Path, ...] = ()) -> list[str]:
    """The errors, a line each: `file:line: error: … [code]`."""
    config = folder / "mypy-strict.ini"
    config.write_text(
        "[mypy]\nstrict = true\npython_version = 3.11\nexplicit_package_bases = true\nnamespace_packages = true\n"
    )
    path = os.pathsep.join(map(str, [*also, *PACKAGES]))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(config),
        "--cache-dir",
        str(CACHE),
        *targets,
    ]
    CACHE.mkdir(parents=True, exist_ok=True)
    with CACHE.with_suffix(".lock").open("w") as lock:
        lock_file(lock.fileno())
        done = subprocess.run(command, cwd=folder, env={**os.environ, "MYPYPATH": path}, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if ": error:" in line]


def pyright(folder: Path, *targets: str, also: tuple[Path, ...] = ()) -> list[str]:
    """The errors, a line each: `file:line: message (rule)`."""
    config = {
        "include": list(targets),
        "extraPaths": [str(path) for path in (*also, *PACKAGES)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        "--project",
        str(folder),
        "--pythonpath",
        sys.executable,
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] > 0, done.stdout
    return [_line(diagnostic) for diagnostic in report["generalDiagnostics"] if diagnostic["severity"] == "error"]


def _line(diagnostic: dict[str, Any]) -> str:
    """A diagnostic of pyright as one line."""
    line = diagnostic["range"]["start"]["line"] + 1
    return f"{Path(diagnostic['file']).name}:{line}: {diagnostic['message']} ({diagnostic.get('rule')})"
