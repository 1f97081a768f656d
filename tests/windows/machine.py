"""A Windows of its own: wine's, with the CPython of a jar and the wheels of .ci/lock.txt, in a folder that is kept.

The jar comes from Maven's registry by `mvn`, the wheels from pip's by `uv`, each as this machine has set it up. All is
pinned: the jar by its digest, the wheels by those of the lock.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from windows.libraries import exported_names, forwarding_library

ROOT: Final = Path(__file__).resolve().parents[2]
LOCK: Final = ROOT / ".ci" / "lock.txt"

JAR: Final = "org.bytedeco:cpython:3.13.5-1.5.12:jar:windows-x86_64"
JAR_FILE: Final = "cpython-3.13.5-1.5.12-windows-x86_64.jar"
JAR_DIGEST: Final = "cfe5502ffa7ea369be707b6d88bf68344732a7800450665080fb4267c01bfeae"
JAR_FOLDER: Final = "org/bytedeco/cpython/windows-x86_64/"
# Of the jar: what no test needs, and _wmi, whose library wine has not written, so that the process ends.
LEFT_OUT: Final = (
    "bin/",
    "include/",
    "libs/",
    "lib/test/",
    "lib/idlelib/",
    "lib/turtledemo/",
    "lib/_wmi.pyd",
    "jnipython.dll",
)
# wine ends a process that calls CopyFile2; without it, `shutil` copies by itself, as Python 3.11 does.
WITHOUT_COPIES: Final = 'import _winapi; vars(_winapi).pop("CopyFile2", None)\n'
PYTHON_VERSION: Final = "3.13"
WHEELS: Final = "x86_64-pc-windows-msvc"
# Programs that no test runs there; together they are larger than all the rest.
NOT_INSTALLED: Final = ("mypy", "pyright", "sphinx", "uv", "babel", "granian", "selenium")
# The official SDK, beside which is measured, and what it needs.
OFFICIAL: Final = ("mcp==2.3.0",)
SETUP_SECONDS: Final = 600.0


class Absent(Exception):
    """Something that the machine needs is not there; its text says what."""


class Machine(NamedTuple):
    """Where wine keeps its files."""

    folder: Path

    @property
    def drive(self) -> Path:
        """The folder that is `C:`."""
        return self.folder / "prefix" / "drive_c"

    def site_packages(self, environment: str) -> Path:
        return self.drive / environment / "Lib" / "site-packages"

    def variables(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a process: that of this one, without what is meant for its Python."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "DISPLAY"))}
        own = {
            "WINEPREFIX": str(self.folder / "prefix"),
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "mscoree,mshtml=",  # .NET and a browser, which it would offer to install.
            "PYTHONPYCACHEPREFIX": "C:/compiled",  # Not beside the files of the checkout, which other Pythons read.
        }
        return {**kept, **own, **(extra or {})}

    def run(
        self, program: str, *arguments: str, seconds: float, env: Mapping[str, str] | None = None, cwd: Path = ROOT
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of Windows and return its output: a pipe, because wine's Python cannot write to our files.

        Raises TimeoutExpired.
        """
        done = subprocess.run(
            ["wine", program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.variables(env),
            cwd=cwd,
            timeout=seconds,
        )
        output = done.stdout.decode("utf-8", "replace").replace("\r\n", "\n")
        return subprocess.CompletedProcess(done.args, done.returncode, output)

    def python(
        self, environment: str, *arguments: str, seconds: float, env: Mapping[str, str] | None = None, cwd: Path = ROOT
    ) -> subprocess.CompletedProcess[str]:
        """Run the Python of an environment."""
        return self.run(rf"C:\{environment}\python.exe", *arguments, seconds=seconds, env=env, cwd=cwd)

    def stop(self) -> None:
        """End all processes of this Windows."""
        subprocess.run(["wineserver", "-k"], env=self.variables(), check=False, timeout=60)


def windows_path(path: Path) -> str:
    """Return the name that a file of this machine has there: its root is `Z:`."""
    return "Z:" + str(path).replace("/", "\\")


def set_up(folder: Path) -> Machine:
    """Return the machine of a folder, which is made if it is not there or of other versions. Raises Absent."""
    machine = Machine(folder)
    stamp = folder / "complete.txt"
    wanted = _digest_of_all()
    if stamp.exists() and stamp.read_text() == wanted:
        return machine
    for program in ("wine", "wineserver", "mvn"):
        if shutil.which(program) is None:
            raise Absent(f"{program} is not installed: apt install wine wine64 maven")
    if (folder / "prefix").exists():
        machine.stop()
    shutil.rmtree(folder / "prefix", ignore_errors=True)
    stamp.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    jar = _fetched_jar(folder)
    _checked("wine", machine.run("wineboot", "-i", seconds=SETUP_SECONDS, cwd=folder))
    _checked("wine", machine.run("winecfg", "-v", "win10", seconds=SETUP_SECONDS, cwd=folder))
    _unpack_python(jar, machine)
    _add_libraries(machine)
    _install_wheels(machine)
    stamp.write_text(wanted)
    return machine


def _digest_of_all() -> str:
    """Return a digest of what decides what is installed."""
    parts = [Path(__file__), LOCK, Path(__file__).with_name("libraries.py")]
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()


def _fetched_jar(folder: Path) -> Path:
    jar = folder / JAR_FILE
    if not jar.exists():
        copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={JAR}", f"-DoutputDirectory={folder}"]
        done = subprocess.run(copy, capture_output=True, text=True, check=False, timeout=SETUP_SECONDS)
        if done.returncode or not jar.exists():
            raise Absent(f"{JAR} cannot be fetched: {_last_line(done.stdout + done.stderr)}")
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    if digest != JAR_DIGEST:
        jar.unlink()
        raise ValueError(f"{JAR} has the digest {digest}, and not {JAR_DIGEST}; it is removed")
    return jar


def _unpack_python(jar: Path, machine: Machine) -> None:
    """Unpack Python, once for each environment: the jar has no launcher for virtual environments."""
    with zipfile.ZipFile(jar) as archive:
        folders = {str(parent) for name in archive.namelist() for parent in PurePosixPath(name).parents}
        for name in archive.namelist():
            inner = name.removeprefix(JAR_FOLDER)
            if inner == name or name.rstrip("/") in folders or inner.startswith(LEFT_OUT):
                continue  # Some folders are entries that look like files.
            first = ENVIRONMENTS[0]
            for environment in ENVIRONMENTS:
                target = machine.drive / environment / re.sub("^lib/", "Lib/", inner)
                target.parent.mkdir(parents=True, exist_ok=True)
                if environment == first:
                    target.write_bytes(archive.read(name))
                else:
                    os.link(machine.drive / first / target.relative_to(machine.drive / environment), target)


def _add_libraries(machine: Machine) -> None:
    """Add what is missing: python3.dll, which forwards to that of the version, and random numbers for Rust."""
    random = forwarding_library("bcryptprimitives.dll", {"ProcessPrng": "advapi32.SystemFunction036"})
    (machine.drive / "windows" / "system32" / "bcryptprimitives.dll").write_bytes(random)
    for environment in ENVIRONMENTS:
        home = machine.drive / environment
        version = next(home.glob("python3??.dll"))
        names = exported_names(version.read_bytes())
        stable = forwarding_library("python3.dll", {name: f"{version.stem}.{name}" for name in names})
        (home / "python3.dll").write_bytes(stable)
        path_file = machine.site_packages(environment) / "wine.pth"
        path_file.parent.mkdir(parents=True, exist_ok=True)
        path_file.write_text(WITHOUT_COPIES, encoding="utf-8")


# What is installed into each Python: the checkout and all that its tests need; our wheels; the official SDK.
ENVIRONMENTS: Final = ("checkout", "base", "official")
BASE: Final = ("annotated-types", "pydantic", "pydantic-core", "typing-extensions", "typing-inspection")


def _install_wheels(machine: Machine) -> None:
    pinned = _pins(LOCK.read_text(encoding="utf-8"))
    for environment, chosen in (("checkout", set(pinned) - set(NOT_INSTALLED)), ("base", set(BASE))):
        requirements = machine.folder / f"{environment}.txt"
        requirements.write_text("".join(pinned[name] for name in sorted(chosen)), encoding="utf-8")
        _install(machine, environment, "--no-deps", "--require-hashes", "-r", str(requirements))
    _install(machine, "official", *OFFICIAL)
    _install(machine, "checkout", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    programs = machine.drive / "checkout" / "Scripts"  # uv puts them elsewhere, where their packages do not look.
    programs.mkdir(exist_ok=True)
    for program in (machine.site_packages("checkout") / "bin").glob("*.exe"):
        shutil.copy(program, programs)
    write_path_file(machine)


def write_path_file(machine: Machine) -> None:
    """Let the Python of the checkout import its packages: uv has written the folders' names of this system."""
    folders = [windows_path(ROOT / name) for name in ("codegen", "runtime", "products", "generated")]
    (machine.site_packages("checkout") / "_mcp_generated.pth").write_text("\n".join(folders) + "\n", encoding="utf-8")


def _install(machine: Machine, environment: str, *requirements: str) -> None:
    target = str(machine.site_packages(environment))
    wheels = ("--python-platform", WHEELS, "--python-version", PYTHON_VERSION, "--target", target)
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable, *wheels]
    binary = () if "--editable" in requirements else ("--only-binary", ":all:")
    done = subprocess.run(
        [*command, *binary, *requirements], capture_output=True, text=True, check=False, timeout=SETUP_SECONDS
    )
    if done.returncode:
        raise Absent(f"the wheels of {environment} cannot be installed: {_last_line(done.stderr)}")


def install_our_wheels(machine: Machine, wheels: Iterable[Path]) -> None:
    """Install wheels of this checkout into the Python `base`, and nothing that they need: it is there."""
    _install(machine, "base", "--no-deps", "--reinstall", *map(str, wheels))


def _pins(lock: str) -> dict[str, str]:
    """Return the lines of each package of a lock file, with its hashes, by its name."""
    blocks = re.split(r"^(?=[\w.-]+==)", lock, flags=re.MULTILINE)
    return {block.partition("==")[0]: block for block in blocks if "==" in block}


def _checked(what: str, done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        raise Absent(f"{what} does not start: {_last_line(done.stdout)}")


def _last_line(text: str) -> str:
    return next(reversed([line for line in text.splitlines() if line.strip()]), "it printed nothing")
