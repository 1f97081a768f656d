"""The commands of the project: `nox -s check`, `nox -s test`; `nox -l` lists them all.

Each session runs in the environment that nox is started from, so install that once: `pip install -e '.[dev]'`.
What follows `--` is passed on: `nox -s test -- tests/core -k sse`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["check", "test"]

ROOT = Path(__file__).resolve().parent
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14", "python3.14t")
BENCHMARKS = ("imports", "measures/models", "measures/readme_server", "stdio", "over_http", "styles", "generator/times")
# What depends most on the interpreter: event loops, threads, processes, type hints and models.
ON_ANY_PYTHON = (
    *("tests/platforms", "tests/core/features/cancellation", "tests/core/aio", "tests/core/stdio", "tests/fast"),
    *("tests/app/test_app.py", "tests/app/test_parameter_types.py"),
)
# What each system has of its own, in one to two minutes: stdio, HTTP, processes and files, and apps in memory.
UNDER_WINE = (  # wine takes several times as long.
    *("tests/platforms/test_any_system.py", "tests/platforms/test_services_on_any_system.py"),
    *("tests/platforms/test_on_windows.py", "tests/core/stdio/test_unread_standard_error.py"),
)
# What Windows alone tells: wine locks no open file, and SQLite's locks are its own; one command of two writes there.
LEFT_TO_WINDOWS = (
    "tests/platforms/test_services_on_any_system.py::test_a_package_with_an_open_file_is_replaced_or_stays_whole",
    "tests/platforms/test_services_on_any_system.py::test_two_processes_share_a_store_in_sqlite",
    "tests/platforms/test_on_windows.py::test_config_adds_shows_and_checks_a_server_below_appdata",
)
ON_ANY_SYSTEM = (*UNDER_WINE, "tests/core/aio", "tests/app/test_app.py")


def python(session: nox.Session, *arguments: str) -> None:
    """Run Python with these arguments, and what was given after `--`."""
    session.run(sys.executable, *arguments, *session.posargs, external=True)


@nox.session
def generate(session: nox.Session) -> None:
    """Write generated/ anew from schema/ and templates/."""
    python(session, "-m", "mcp_codegen", "--all")


@nox.session
def check(session: nox.Session) -> None:
    """Check that generated/ is up to date, lint, format, types, layers, dependencies, and the rules of tests/house."""
    commands = [
        # Those that take longest come first. Pyright looks for an activated environment otherwise.
        ("-m", "pytest", "-q", "-m", "check and not long", "tests/house"),
        ("-m", "pyright", "--threads", "--pythonpath", sys.executable),
        ("-m", "mypy"),
        ("-m", "mypy", "--platform", "win32", "--cache-dir", ".mypy_cache/win32"),
        ("-m", "mypy", "--platform", "darwin", "--cache-dir", ".mypy_cache/darwin", *about_platforms()),
        ("-m", "mcp_codegen", "--all", "--check"),
        ("-m", "ruff", "check", "."),
        ("-m", "ruff", "format", "--diff", "."),
        # A file is read and written as UTF-8, and not by the code page of Windows: this rule is a preview.
        ("-m", "ruff", "check", "--preview", "--select", "PLW1514", "."),
        ("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"),
        (".ci/audit.py",),
    ]
    failed: list[str] = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for words, done in zip(commands, pool.map(checked, commands), strict=True):
            session.log(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}")
            failed += [" ".join(words)] if done.returncode else []
    if failed:
        session.error(f"failed: {'; '.join(failed)}")


def about_platforms() -> list[str]:
    """Return the files that compare `sys.platform`, and so have lines that are checked for one system alone.

    In all others, what macOS lacks of Linux is missing on Windows too, for which every file is checked.
    """
    folders = ("codegen", "runtime", "products", "generated")
    paths = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(str(path) for path in paths if "sys.platform" in path.read_text(encoding="utf-8"))


def checked(words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run a check, and return its exit code and output."""
    pipe, errors = subprocess.PIPE, subprocess.STDOUT
    return subprocess.run([sys.executable, *words], stdout=pipe, stderr=errors, text=True, cwd=ROOT, check=False)


@nox.session
def audit(session: nox.Session) -> None:
    """Compare the packages of .ci/lock.txt with known vulnerabilities, without a network."""
    session.run(sys.executable, ".ci/audit.py", external=True)


@nox.session(venv_backend="uv|venv")
def lock(session: nox.Session) -> None:
    """Write .ci/lock.txt anew: the newest packages that pyproject.toml allows, with their hashes."""
    session.install("uv>=0.13")
    options = ["--universal", "--generate-hashes", "--no-header", "--no-annotate", "--upgrade", "--quiet"]
    extras = ["--extra", "dev", "--extra", "docs"]
    session.run("uv", "pip", "compile", "pyproject.toml", *extras, *options, "-o", ".ci/lock.txt")
    session.run("uv", "pip", "compile", ".ci/release.in", *options, "-o", ".ci/release.txt")


@nox.session
def test(session: nox.Session) -> None:
    """Run the tests, without the long ones."""
    python(session, "-m", "pytest", "-q", "-n", "auto")


@nox.session
def long(session: nox.Session) -> None:
    """Run the long tests: thousands of instances, every peer, load."""
    python(session, "-m", "pytest", "-q", "-n", "auto", "-m", "long")


@nox.session
def exhaustive(session: nox.Session) -> None:
    """Run what the other two runs leave: the rest of matrices, and tests of minutes."""
    python(session, "-m", "pytest", "-q", "-n", "auto", "-m", "exhaustive")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Give 20,000 mutated inputs to each reader of the bytes of others; `-- --inputs 200000` gives more."""
    jobs = str(os.cpu_count() or 1)
    python(session, "benchmarks/reliability/fuzz.py", "--inputs", "7000", "--jobs", jobs)


@nox.session
def simulation(session: nox.Session) -> None:
    """Play 10,000 schedules of a simulated world; `-- --schedules 1000000` plays more.

    tests/simulation plays those, however late, that have found a fault.
    """
    session.env["PYTHONPATH"] = "tests"
    jobs = str(2 * (os.cpu_count() or 1))  # As many as the long tests have, beside which it runs.
    python(session, "-m", "simulation", "--schedules", "10000", "--jobs", jobs)


@nox.session(venv_backend="uv|venv")
def base(session: nox.Session) -> None:
    """Run the tests of apps and examples with the base installation, in an environment of its own."""
    session.install(".", "./products", "pytest", "pytest-xdist")
    installed: dict[str, str | None] = {"PYTHONPATH": None, "PYTHONDONTWRITEBYTECODE": None}  # Not the checkout.
    folders = ("tests/app", "tests/compat", "tests/host", "tests/relay/proxy", "tests/examples")
    session.run("python", "-m", "pytest", "-q", "-n", "auto", *folders, *session.posargs, env=installed)


@nox.session
def plain(session: nox.Session) -> None:
    """Run the tests of what has fast paths without them, in the last but one and the newest revision.

    These have the two lifecycles, and the paths depend on no revision.
    """
    session.env["MCP_FAST_PATHS"] = "0"
    folders = ("tests/core", "tests/app", "tests/hosting", "tests/host", "tests/large", "tests/fast")
    newest = "not 2024-11-05 and not 2025-03-26 and not 2025-06-18"
    python(session, "-m", "pytest", "-q", "-n", "auto", "-k", newest, *folders)


@nox.session
def portable(session: nox.Session) -> None:
    """Run the tests of stdio with the transport of threads, which Windows uses."""
    session.env["MCP_STDIO"] = "threads"
    folders = ("tests/core/stdio", "tests/platforms")
    without_pipes = "--ignore=tests/core/stdio/test_floods_and_envelopes.py"
    python(session, "-m", "pytest", "-q", "-n", "auto", *folders, without_pipes)


@nox.session
def system(session: nox.Session) -> None:
    """Run the tests of what this system has of its own: Linux, macOS or Windows; `windows` runs a part of them."""
    python(session, "-m", "pytest", "-q", *ON_ANY_SYSTEM)


@nox.session
def windows(session: nox.Session) -> None:
    """Run tests of processes, pipes and files under wine, in three minutes; `-- --all` runs all that hold, in hours."""
    session.env["PYTHONPATH"] = "tests"
    chosen = (*UNDER_WINE, *(f"--deselect={test}" for test in LEFT_TO_WINDOWS))
    python(session, "-m", "windows", *(() if session.posargs else chosen))


@nox.session
def mutation(session: nox.Session) -> None:
    """Change the code in small ways, at a fixed seed, and run the tests nearest to each change; an hour or more."""
    session.env["PYTHONPATH"] = "tests"
    python(session, "-m", "mutation")


@nox.session
def pythons(session: nox.Session) -> None:
    """Run a part of the tests on the other versions of Python of this machine; `-- NAME` runs it on one."""
    for name in session.posargs or PYTHONS:
        interpreter = shutil.which(name)
        if interpreter is None:
            session.log(f"{name} is skipped: it is not installed")
            continue
        folder = ROOT / "build" / "pythons" / Path(name).name
        own = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        if not (folder / "installed").exists():
            session.run(interpreter, "-m", "venv", "--clear", str(folder), external=True)
            session.run(str(own), "-m", "pip", "install", "--quiet", "--editable", ".[dev]", external=True)
            (folder / "installed").touch()
        session.run(str(own), "-m", "pytest", "-q", "-n", "2", *ON_ANY_PYTHON, external=True)


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the official conformance suite against the servers and clients of tests/conformance/."""
    python(session, "tests/conformance/run.py")


@nox.session
def conformance_through_bridge(session: nox.Session) -> None:
    """Run the official conformance suite against the servers of tests/conformance/ through a bridge."""
    python(session, "tests/conformance/run.py", "--bridge")


@nox.session
def balanced(session: nox.Session) -> None:
    """Run the official conformance suite, and all clients of other projects, through nginx before four servers."""
    session.run(sys.executable, "tests/conformance/run.py", "--balanced", *session.posargs, external=True)
    cells = "tests/interop/features/test_balanced_cells.py"
    session.run(sys.executable, "-m", "pytest", "-q", "-m", "", cells, external=True)


@nox.session
def sdks(session: nox.Session) -> None:
    """Build peers with the official SDKs for other languages, once, and let them use servers and clients of ours."""
    python(session, "-m", "pytest", "-q", "-n", "4", "--dist", "loadgroup", "-m", "campaign", "tests/interop/sdks")


@nox.session
def docs(session: nox.Session) -> None:
    """Run the code of README and docs/, and check their links and words."""
    python(session, "-m", "pytest", "-q", "tests/website")
    python(session, "-m", "pytest", "-q", "-n", "auto", "-m", "not check", "tests/house/test_docs.py")


@nox.session(venv_backend="venv")
def site(session: nox.Session) -> None:
    """Build the documentation site into build/site, in an environment of its own; a broken link is an error."""
    session.install(".[all,docs]", "./codegen", "./products")
    # The checkout is read, not the installed packages, so that the pages are those of what stands here.
    folders = ("docs", "codegen", "runtime", "products", "generated")
    session.env["PYTHONPATH"] = os.pathsep.join(str(ROOT / folder) for folder in folders)
    session.run("python", "-m", "website", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build the source distribution and the wheel of each distribution, and check what they hold."""
    for folder in (".", "codegen", "products"):
        session.run(sys.executable, "-m", "build", "--outdir", "dist", folder, external=True)
    python(session, "-m", "pytest", "-q", "-m", "check", "tests/house/test_packaging.py")


@nox.session(venv_backend="venv")
def release(session: nox.Session) -> None:
    """Check what a release needs, build it, and stop before the upload; `-- --without PART` leaves a part out."""
    session.install("--require-hashes", "--requirement", ".ci/release.txt")
    session.env["PYTHONPATH"] = str(ROOT / ".ci")
    session.run("python", "-m", "release", "--python", sys.executable, *session.posargs)


@nox.session
def attacks(session: nox.Session) -> None:
    """Measure what hostile and large messages cost, beside the official SDK, and what other clients notice of them."""
    session.run(sys.executable, "benchmarks/attacks", *session.posargs, external=True)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure imports, models and calls beside other implementations; `-- NAME` chooses one, which takes 4 minutes.

    The tables of README and docs/ get the results.
    """
    for name in session.posargs or BENCHMARKS:
        seconds = [] if "/" in name else ["--seconds", "220"]
        session.run(sys.executable, f"benchmarks/{name}.py", *seconds, external=True)
    session.run(sys.executable, "benchmarks/tables.py", external=True)
