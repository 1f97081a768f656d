"""The packages of CI are locked by their hashes, and none has a known vulnerability; the audit notices one that has."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.project import ROOT

LOCK = ROOT / ".ci" / "lock.txt"


def audit(*paths: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci" / "audit.py"), *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True)


def test_no_package_has_a_known_vulnerability() -> None:
    outcome = audit()
    assert outcome.returncode == 0 and "no known vulnerability" in outcome.stdout, outcome.stdout


def test_the_lock_has_every_package_with_its_hashes_and_names_no_registry() -> None:
    text = LOCK.read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z0-9])", "\n" + text)[1:]
    assert len(entries) > 50 and all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text and "--index" not in text and "--find-links" not in text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = project["optional-dependencies"].values()
    named = {canonicalize_name(Requirement(item).name) for group in groups for item in group}
    named = {name for name in named if not name.startswith(project["name"])}  # The distributions of this repository.
    assert named <= {canonicalize_name(re.split(r"[=\[ ]", entry)[0]) for entry in entries}


@pytest.mark.parametrize(
    ("name", "version"), [("filelock", "3.20.2"), ("Jinja2", "3.1.5"), ("h11", "0.14.0"), ("starlette", "0.40.0")]
)
def test_the_audit_notices_a_vulnerability_in_the_lock_and_in_a_least_version(
    name: str, version: str, tmp_path: Path
) -> None:
    lock, project = tmp_path / "lock.txt", tmp_path / "pyproject.toml"
    lock.write_text(f"{name}=={version} \\\n    --hash=sha256:00\n")
    outcome = audit(lock)
    assert outcome.returncode == 1 and f"{name.lower()} {version}: CVE-" in outcome.stdout
    project.write_text(f'[project]\nname = "x"\n[project.optional-dependencies]\na = ["{name}>={version}"]\n')
    outcome = audit(LOCK, project)
    assert outcome.returncode == 1 and f"{name.lower()} {version}: CVE-" in outcome.stdout


def test_a_lock_without_packages_is_no_clean_lock(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_text("# nothing\n")
    assert audit(tmp_path / "lock.txt").returncode == 1
