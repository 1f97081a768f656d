"""Run tests on the Windows of this machine: wine's. `nox -s windows` runs this; without wine it says so, and ends."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from windows.machine import ROOT, Absent, Machine, install_our_wheels, set_up, windows_path, write_path_file
from windows.smoke import CHECKS, MISSING_IN_WINE

FOLDER: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcp-windows"
# What was run once: docs/platforms.md has the counts.
ALL: Final = (
    *("tests/platforms", "tests/app", "tests/cli", "tests/core", "tests/host", "tests/relay", "tests/workers"),
    *("tests/compat", "tests/hosting", "tests/auth", "tests/extensions", "tests/telemetry", "tests/json_rpc"),
    *("tests/openapi", "tests/fast", "tests/cards", "tests/code_mode", "tests/common", "tests/json_schema"),
    *("tests/large", "tests/lenient", "tests/lint", "tests/tenants", "tests/testing", "tests/versions"),
    *("tests/examples", "tests/codegen"),
)
SMOKE_SECONDS: Final = 300.0
TEST_SECONDS: Final = 900.0
README_CALL: Final = """
import asyncio, sys
from mcp_generated import connect

async def main():
    async with connect([sys.executable, sys.argv[1]]) as client:
        print((await client.call_tool("add", {"a": 1, "b": 2})).structured_content)

asyncio.run(main())
"""


def main() -> int:
    """Set up the machine, and run what the command line names; return the exit code."""
    parser = argparse.ArgumentParser(prog="nox -s windows --", description=__doc__)
    parser.add_argument("--all", action="store_true", help="run all tests that hold there; an hour")
    parser.add_argument("--set-up", action="store_true", help="set the machine up, and end")
    parser.add_argument("--ratios", action="store_true", help="measure beside the official SDK instead")
    parser.add_argument("tests", nargs="*", help="files, folders and options of pytest; nox names a part")
    options, words = parser.parse_known_args()
    chosen = ALL if options.all else [*options.tests, *words]
    began = time.monotonic()
    try:
        machine = set_up(FOLDER)
    except Absent as error:
        print(f"the tests on Windows are skipped: {error}")
        return 0
    print(f"Windows is set up in {FOLDER} ({time.monotonic() - began:.0f} s)")
    if options.set_up:
        machine.stop()
        return 0
    try:
        write_path_file(machine)  # Another checkout may have been the last.
        if options.ratios:
            installed(machine)
            return ratios(machine)
        if not works(machine):
            return 0
        return installed(machine) or tests(machine, chosen, None if options.all else TEST_SECONDS)
    finally:
        machine.stop()


def works(machine: Machine) -> bool:
    """Run Python without our code, and say what it cannot do there. Return False if that is too much: then it is wine's
    fault, and nothing is known of ours."""
    done = machine.python("base", windows_path(ROOT / "tests/windows/smoke.py"), seconds=SMOKE_SECONDS)
    if done.returncode:
        print(f"the tests on Windows are skipped: Python alone does not work under this wine:\n{done.stdout}")
        return False
    results = json.loads(done.stdout.splitlines()[-1])
    print("Python there has", "; ".join(name for name in CHECKS if results[name]))
    print("wine has not", "; ".join(name for name in MISSING_IN_WINE if not results[name]))
    return True


def installed(machine: Machine) -> int:
    """Install the wheel into a Python of its own, and run README's first server from a client over stdio."""
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, str(ROOT)]
        subprocess.run(build, check=True, capture_output=True, timeout=SMOKE_SECONDS)
        install_our_wheels(machine, Path(folder).glob("*.whl"))
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        server = Path(folder) / "mein Server ü.py"
        source = readme.partition("<!-- test: file=server.py -->\n```python\n")[2].partition("```")[0]
        server.write_text(source, encoding="utf-8")
        done = machine.python("base", "-c", README_CALL, windows_path(server), seconds=SMOKE_SECONDS, cwd=Path(folder))
    *said, result = done.stdout.splitlines() or [""]  # Before the result, that jsonschema-rs is not installed.
    print("README's server from its wheel:", result)
    if result != "{'result': 3}":
        print(*said, sep="\n")
    return int(result != "{'result': 3}")


def ratios(machine: Machine) -> int:
    """Measure our server and one of the official SDK in turns, each in a Python of its own."""
    script = windows_path(ROOT / "tests/windows/ratios.py")
    pythons = (r"C:\base\python.exe", r"C:\official\python.exe")
    done = machine.python("base", script, *pythons, seconds=TEST_SECONDS)
    print(*[line for line in done.stdout.splitlines() if line.startswith("{")], sep="\n")  # And not wine's own remarks.
    return done.returncode


def tests(machine: Machine, chosen: list[str] | tuple[str, ...], seconds: float | None) -> int:
    """Run tests of the checkout; return the exit code of pytest."""
    words = ["-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "-rs", "--tb=short", *chosen]
    with subprocess.Popen(
        ["timeout", str(seconds or 7200), "wine", r"C:\checkout\python.exe", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=machine.variables(),
        cwd=ROOT,
    ) as running:
        assert running.stdout is not None
        threading.Thread(target=_stop_after, args=(running, machine), daemon=True).start()
        for line in running.stdout:
            print(line.decode("utf-8", "replace").rstrip(), flush=True)
    return running.returncode


def _stop_after(running: subprocess.Popen[bytes], machine: Machine) -> None:
    """Stop what tests have left running: it holds the pipe of their output open, and wine's icacls may hang."""
    running.wait()
    machine.stop()


if __name__ == "__main__":
    sys.exit(main())
