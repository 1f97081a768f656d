"""The types in the form of the official SDK have the names, fields, defaults and types of the original, and read and
write the official examples as it does. With `-s`, each test prints how many names it compares, and which differ."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.peers import LIMIT, clean, python_peer
from support.project import OFFICIAL, PEER_DRIVERS, needs_official

from mcp_codegen.cli.main import main

pytestmark = [pytest.mark.long, needs_official]

ORIGINALS = {"v1": ("mcp==1.30.0", "mcp.types"), "v2": ("mcp==2.3.0", "mcp_types")}
PUBLIC = ["mcp_types", "mcp_types.jsonrpc", "mcp_types.methods", "mcp_types.version"]
OF_ONE_VERSION = ["mcp_types._v2025_11_25", "mcp_types._v2026_07_28"]
# The original has them from two bases, in another order.
OTHER_ORDER = {f"_v2025_11_25.{name}" for name in ("CancelTaskResult", "GetTaskResult", "TaskStatusNotificationParams")}
SDIST = "mcp==2.3.0"
TOOLS = (
    "pytest pytest-timeout pytest-examples inline-snapshot dirty-equals logfire blockbuster trio httpx pillow coverage"
)


def facts(python: Path | str, module: str, folder: Path | None = None) -> dict[str, Any]:
    command = [str(python), str(PEER_DRIVERS / "official_types.py"), module, str(OFFICIAL / "2026-07-28" / "examples")]
    env = os.environ | ({} if folder is None else {"PYTHONPATH": str(folder)})
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT, env=env)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@cache
def both(form: str) -> tuple[dict[str, Any], dict[str, Any]]:
    requirement, module = ORIGINALS[form]
    return facts(python_peer(requirement), module), facts(sys.executable, f"mcp_generated.compat.types_{form}")


def different(original: dict[str, Any], ours: dict[str, Any]) -> set[str]:
    """Return the names that differ, and print a line for each."""
    names = {name for name, fact in original["names"].items() if ours["names"].get(name, "missing") != fact}
    print(f"{len(original['names']) - len(names)} of {len(original['names'])} names are the same")
    for name in sorted(names):
        print(f"{name}: {original['names'][name]} there, {ours['names'].get(name, 'missing')} here")
    return names


@pytest.mark.edges("v2")
@pytest.mark.parametrize("form", list(ORIGINALS))
def test_every_public_name_is_what_it_is_in_the_original(form: str) -> None:
    original, ours = both(form)
    assert len(original["names"]) > 190
    assert different(original, ours) == set()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package `mcp_types` as the command writes it."""
    folder = tmp_path_factory.mktemp("official")
    written = CliRunner().invoke(main, ["official", "--of", "mcp-types-2.3", "--output", str(folder)])
    assert written.exit_code == 0, written.output
    return folder


@pytest.mark.exhaustive
def test_every_name_of_the_package_is_what_it_is_in_the_original(package: Path) -> None:
    python, modules = python_peer(ORIGINALS["v2"][0]), ",".join(PUBLIC)
    original, ours = facts(python, modules), facts(python, modules, package)
    assert len({name.rpartition(".")[2] for name in original["names"]}) == 245
    assert ours["names"].keys() == original["names"].keys()
    assert different(original, ours) == set()


def test_the_types_of_one_version_are_those_of_the_original(package: Path) -> None:
    python, modules = python_peer(ORIGINALS["v2"][0]), ",".join(["mcp_types.version", *OF_ONE_VERSION])
    original, ours = facts(python, modules), facts(python, modules, package)
    assert len(original["names"]) > 300
    assert different(original, ours) == OTHER_ORDER


def sources(folder: Path, python: Path) -> Path:
    """The source distribution of the SDK, which has its tests. Skips the test where it cannot be had."""
    command = [str(python), "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "mcp", "-d", str(folder), SDIST]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT)
    except (subprocess.SubprocessError, OSError) as error:
        reason = f"the sources of {SDIST} cannot be had: {getattr(error, 'stderr', None) or error}"
        print(reason, file=sys.stderr)
        pytest.skip(reason)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    root = next(path for path in folder.iterdir() if path.is_dir())
    shutil.rmtree(root / "src")
    return root


@pytest.mark.exhaustive
def test_the_sdk_passes_its_own_tests_of_types_with_the_package(package: Path, tmp_path: Path) -> None:
    python = python_peer(f"mcp[cli]==2.3.0 pip {TOOLS}")
    root = sources(tmp_path, python)
    options = [
        "-o",
        "addopts=",
        "-o",
        "log_cli=false",
        "-p",
        "anyio",
        "--inline-snapshot=disable",
        "-p",
        "no:cacheprovider",
    ]
    command = [str(python), "-m", "pytest", "-q", "tests/types", "tests/test_types.py", "--timeout", "60", *options]
    env = clean() | {"PYTHONPATH": str(package)}
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=LIMIT, env=env)
    assert "471 passed" in done.stdout, done.stdout[-4000:]


@pytest.mark.parametrize("form", list(ORIGINALS))
def test_every_official_example_is_read_and_written_as_by_the_original(form: str) -> None:
    original, ours = both(form)
    assert len(original["examples"]) > 900
    assert ours["examples"] == original["examples"]
