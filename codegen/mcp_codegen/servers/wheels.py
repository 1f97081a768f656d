"""The packages of a bundle that brings them along: the wheels that pip downloads for each system and Python."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from ..errors import CodegenError


class System(NamedTuple):
    """A system: its name in a manifest, the tags of its wheels, and what markers of requirements say there."""

    name: str
    tags: tuple[str, ...]
    markers: Mapping[str, str]


def _linux(machine: str) -> System:
    tags = tuple(f"manylinux{version}_{machine}" for version in ("_2_28", "_2_17", "2014"))
    return System("linux", tags, _markers("linux", "Linux", "posix", machine))


def _mac(machine: str) -> System:
    tags = (f"macosx_14_0_{machine}", "macosx_14_0_universal2")  # pip takes those of older systems too.
    return System("darwin", tags, _markers("darwin", "Darwin", "posix", machine))


def _windows(machine: str, tag: str) -> System:
    return System("win32", (tag,), _markers("win32", "Windows", "nt", machine))


def _markers(system: str, name: str, kind: str, machine: str) -> dict[str, str]:
    return {"sys_platform": system, "platform_system": name, "os_name": kind, "platform_machine": machine}


SYSTEMS: Final = {
    "linux-x86_64": _linux("x86_64"),
    "linux-aarch64": _linux("aarch64"),
    "macos-arm64": _mac("arm64"),
    "macos-x86_64": _mac("x86_64"),
    "windows-x86_64": _windows("AMD64", "win_amd64"),
    "windows-arm64": _windows("ARM64", "win_arm64"),
}
LIBRARY: Final = "site-packages"  # The folder of the packages in a bundle.
_MAX_BYTES: Final = 256 << 20
_LIMIT: Final = 600  # Seconds that pip may take for one system and Python.
# pip evaluates the markers of requirements for the Python that runs it, also with --platform: pip issue 11664. So its
# environment of markers is that of the system and the Python that the wheels are for. It is private, and changed in a
# process of its own: tests/cli/test_pack_forms.py fails where pip has moved it.
_PIP: Final = """import json, sys
from pip._vendor.packaging import markers
here, there = markers.default_environment, json.loads(sys.argv[1])
markers.default_environment = lambda: {**here(), **there}
from pip._internal.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def this_system() -> str:
    """Return the name of the system that runs this, such as linux-x86_64. Raises CodegenError for another one."""
    names = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}
    machines = {"amd64": "x86_64", "aarch64": "aarch64", "arm64": "arm64", "x86_64": "x86_64"}
    name = f"{names.get(platform.system(), platform.system())}-{machines.get(platform.machine().lower(), '')}"
    if name not in SYSTEMS:
        raise CodegenError(f"this system is not known; pass --for with one of {', '.join(SYSTEMS)}")
    return name


def packages_of(requirements: Sequence[str], systems: Sequence[str], pythons: Sequence[str]) -> dict[str, bytes]:
    """Return the files of all packages that requirements need, as one folder for these systems and Pythons.

    Raises CodegenError if pip finds no wheel, and if two wheels have different files of one name, as those for the two
    processors of macOS have: these need a bundle each.
    """
    found: dict[str, tuple[bytes, str]] = {}
    size = 0
    for system in systems:
        for python in pythons:
            for name, data, wheel in _files_for(requirements, system, python):
                if name not in found:
                    size += len(data)
                elif _text(found[name][0]) != _text(data) and not _is_metadata(name):
                    raise CodegenError(
                        f"{name} is another file in {wheel} than in {found[name][1]}; make a bundle for each: pass one "
                        "--for and one --python"
                    )
                if size > _MAX_BYTES:
                    raise CodegenError(f"the packages have more than {_MAX_BYTES >> 20} MiB; pass fewer --for")
                found.setdefault(name, (data, wheel))
    return {f"{LIBRARY}/{name}": data for name, (data, _) in found.items()}


def _files_for(requirements: Sequence[str], system: str, python: str) -> Iterator[tuple[str, bytes, str]]:
    with TemporaryDirectory() as folder:
        _download(requirements, system, python, folder)
        for wheel in sorted(Path(folder).glob("*.whl")):
            yield from ((name, data, wheel.name) for name, data in _unpacked(wheel))


def _download(requirements: Sequence[str], system: str, python: str, folder: str) -> None:
    chosen = SYSTEMS[system]
    markers = {**chosen.markers, "python_version": python, "python_full_version": f"{python}.0"}
    options = ["--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--implementation", "cp"]
    options += ["--python-version", python, *(word for tag in chosen.tags for word in ("--platform", tag))]
    command = [sys.executable, "-c", _PIP, json.dumps(markers), "download", *options, "--dest", folder, *requirements]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CodegenError(f"pip cannot download packages for {system}: {error}") from None
    if "No module named 'pip'" in done.stderr:
        raise CodegenError(f"pip is not there, which downloads packages: {sys.executable} -m ensurepip")
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        reason = lines[-1].removeprefix("ERROR: ") if lines else f"exit code {done.returncode}"
        raise CodegenError(f"{system} and Python {python}: {reason}; without --for, the uv of the host installs them")


def _unpacked(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a wheel by their places below site-packages; its scripts are left out."""
    with zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            first, *rest = PurePosixPath(name).parts
            if name.endswith("/") or ".." in rest or first in ("..", "/"):
                continue
            if first.endswith(".data"):
                if rest[0] not in ("purelib", "platlib"):
                    continue
                name = "/".join(rest[1:])
            yield name, opened.read(name if not first.endswith(".data") else "/".join((first, *rest)))


def _text(data: bytes) -> bytes:
    """Return a file as Linux has it: wheels for Windows may have other ends of lines."""
    return data.replace(b"\r\n", b"\n")


def _is_metadata(name: str) -> bool:
    return PurePosixPath(name).parts[0].endswith(".dist-info")
