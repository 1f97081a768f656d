"""Compare the versions of .ci/lock.txt, and the least versions of pyproject.toml, with the known vulnerabilities of
.ci/advisories.toml. It needs no network; the exit code is 1 if a version has one."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

HERE = Path(__file__).resolve().parent
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)


def locked(text: str) -> Iterator[tuple[str, Version]]:
    """Yield the name and the version of the packages of a lock file."""
    for name, version in PINNED.findall(text):
        yield canonicalize_name(name), Version(version)


def least(project: dict[str, object]) -> Iterator[tuple[str, Version]]:
    """Yield the name and the least version of the requirements of a project."""
    table: dict[str, list[str]] = project.get("optional-dependencies", {})  # type: ignore[assignment]
    direct: list[str] = project.get("dependencies", [])  # type: ignore[assignment]
    for text in [*direct, *(item for group in table.values() for item in group)]:
        requirement = Requirement(text)
        for specifier in requirement.specifier:
            if specifier.operator in (">=", "=="):
                yield canonicalize_name(requirement.name), Version(specifier.version)


def vulnerabilities(versions: Iterator[tuple[str, Version]], advisories: list[dict[str, str]]) -> Iterator[str]:
    """Yield a line for a version with a known vulnerability."""
    for name, version in versions:
        for advisory in advisories:
            affected = Requirement(f"{advisory['package']}{advisory['affected']}")
            if canonicalize_name(affected.name) == name and affected.specifier.contains(version, prereleases=True):
                yield f"{name} {version}: {advisory['id']} ({advisory['affected']}): {advisory['reason']}"


def main(lock: str, project: str, advisories: str) -> int:
    """Print the vulnerabilities of the files with these paths."""
    known = tomllib.loads(Path(advisories).read_text(encoding="utf-8"))["advisory"]
    pinned = list(locked(Path(lock).read_text(encoding="utf-8")))
    required = list(least(tomllib.loads(Path(project).read_text(encoding="utf-8"))["project"]))
    lines = [
        *(f"{lock}: {line}" for line in vulnerabilities(iter(pinned), known)),
        *(f"{project}: {line}" for line in vulnerabilities(iter(required), known)),
    ]
    print("\n".join(lines) or f"{len(pinned)} packages: no known vulnerability ({len(known)} advisories)")
    return int(bool(lines) or not pinned)


if __name__ == "__main__":
    default = [str(HERE / "lock.txt"), str(HERE.parent / "pyproject.toml"), str(HERE / "advisories.toml")]
    sys.exit(main(*(sys.argv[1:] + default[len(sys.argv) - 1 :])))
