"""The parts of a release that build and run: generated code, vulnerabilities, conformance, wheels, sdists and SBOM."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from .project import Distribution, RefusedError, Release, interpreters

# The first program of README.md, which adds two numbers.
FIRST_PROGRAM = re.compile(r"^<!-- test: file=server\.py -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A client in a process of its own calls the server of the other, in the newest version and in an older one.
CALL = """
import asyncio, sys
from mcp_generated import connect
async def call():
    async with connect([sys.executable, "server.py"]) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
asyncio.run(call())
print("called")
"""
OPENING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "release", "version": "1"}}


def first_program(root: Path) -> str:
    """Return the first program of README.md. Raises RefusedError if there is none."""
    match = FIRST_PROGRAM.search((root / "README.md").read_text(encoding="utf-8"))
    if match is None:
        raise RefusedError("README.md has no program under `<!-- test: file=server.py -->`; write one")
    return match[1]


def generated(release: Release) -> None:
    """Check that generated/ is what the generator makes now."""
    # From its folder, this module is that of this checkout, whichever is installed.
    output = release.run(release.python, "-m", "mcp_codegen", "--all", "--check", cwd=release.root / "codegen")
    release.note(output.strip().splitlines()[-1])


def audit(release: Release) -> None:
    """Check that no locked package has a known vulnerability."""
    release.note(release.run(release.python, ".ci/audit.py").strip())


def conformance(release: Release) -> None:
    """Run the official conformance suite."""
    release.note(release.run(release.python, "tests/conformance/run.py").strip().splitlines()[-1])


def build(release: Release) -> None:
    """Build each distribution, the wheel from its sdist, with metadata that PyPI accepts."""
    shutil.rmtree(release.dist, ignore_errors=True)
    for one in release.distributions():
        release.run(sys.executable, "-m", "build", "--outdir", release.dist, one.folder)
    files = sorted(release.dist.iterdir())
    release.run(sys.executable, "-m", "twine", "check", "--strict", *files)
    expected = {
        (canonicalize_name(one.name), release.version(), kind) for one in release.distributions() for kind in KINDS
    }
    built = {_identity(path) for path in files}
    if built != expected:
        raise RefusedError(f"dist/ has {sorted(built)}, not {sorted(expected)}; each needs a wheel and an sdist")
    release.note(", ".join(f"{path.name} {path.stat().st_size / 1024:.0f} KiB" for path in files))


KINDS = ("wheel", "sdist")


def _identity(path: Path) -> tuple[str, str, str]:
    if path.suffix == ".whl":
        name, version, _, _ = parse_wheel_filename(path.name)
        return name, str(version), "wheel"
    name, version = parse_sdist_filename(path.name)
    return name, str(version), "sdist"


def install(release: Release) -> None:
    """Serve, call and generate with wheel and sdist in an empty environment, on each Python of this machine."""
    _need_dist(release)
    available = interpreters(release.interpreters)
    if not available:
        raise RefusedError(f"none of {', '.join(release.interpreters)} is installed")
    for path in available.values():
        for kind in KINDS:
            _install(release, path, kind)
    if missing := [name for name in release.interpreters if name not in available]:
        release.note(f"not installed, so not tried: {', '.join(missing)}")
    release.note(f"wheel and sdist on {', '.join(available)}")


def _install(release: Release, interpreter: str, kind: str) -> None:
    folder = release.build / "environment"
    shutil.rmtree(folder, ignore_errors=True)
    release.run(interpreter, "-m", "venv", folder)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    first, *others = release.distributions()
    links = ["--find-links", release.dist]
    release.run(python, "-m", "pip", "install", "--quiet", *links, _file(release, first, kind))
    release.run(python, "-m", "pip", "check")
    (folder / "server.py").write_text(first_program(release.root), encoding="utf-8")
    answers = release.run(python, "server.py", cwd=folder, stdin=_messages()).splitlines()
    if json.loads(answers[-1])["result"]["structuredContent"] != {"result": 3}:
        raise RefusedError(f"{kind}, {interpreter}: the server of README answers {answers[-1][:200]}")
    release.run(python, "-c", CALL, cwd=folder)
    for one in others:
        release.run(python, "-m", "pip", "install", "--quiet", *links, _file(release, one, kind))
    release.run(python, "-m", "pip", "install", "--quiet", *links, f"{_file(release, first, kind)}[codegen]")
    release.run(python, "-m", "pip", "check")
    release.run(python, "-m", "mcp_codegen", "--revision", "2025-06-18", cwd=folder)
    shutil.rmtree(folder)


def _messages() -> str:
    call = {"name": "add", "arguments": {"a": 1, "b": 2}}
    messages = [
        {"id": 1, "method": "initialize", "params": OPENING},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ]
    return "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)


def _file(release: Release, one: Distribution, kind: str) -> Path:
    matching = [path for path in release.dist.iterdir() if _identity(path)[::2] == (canonicalize_name(one.name), kind)]
    return matching[0]


def _need_dist(release: Release) -> None:
    if not release.dist.is_dir() or len(list(release.dist.iterdir())) != len(KINDS) * len(release.distributions()):
        raise RefusedError("dist/ does not have each wheel and sdist; do not leave out the part build")


def sbom(release: Release) -> None:
    """Write a software bill of materials for each distribution, of what its wheel installs with all its extras."""
    _need_dist(release)
    for one in release.distributions():
        folder = release.build / "environment"
        shutil.rmtree(folder, ignore_errors=True)
        release.run(sys.executable, "-m", "venv", "--without-pip", folder)
        python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        extras = one.project.get("optional-dependencies", {})
        extra = "[all]" if "all" in extras else f"[{','.join(extras)}]" if extras else ""
        wheel = f"{_file(release, one, 'wheel')}{extra}"
        release.run(
            sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--find-links", release.dist, wheel
        )
        output = release.build / f"{one.name}-{release.version()}.cdx.json"
        options = ["--pyproject", one.folder / "pyproject.toml", "--mc-type", "library", "--output-reproducible"]
        release.run("cyclonedx-py", "environment", *options, "--output-file", output, python)
        bill = json.loads(output.read_text(encoding="utf-8"))
        names = {canonicalize_name(component["name"]) for component in bill["components"]}
        root = bill["metadata"]["component"]
        if (root["name"], root["version"]) != (one.name, release.version()) or not names >= {"pydantic"}:
            raise RefusedError(
                f"{output.name}: describes {root['name']} {root.get('version')} with {len(names)} components"
            )
        release.note(f"{output.name}: {len(names)} components")
        shutil.rmtree(folder)


def digests(release: Release) -> list[str]:
    """Return the name and the sha256 of each file that would be uploaded."""
    files = sorted(release.dist.iterdir()) if release.dist.is_dir() else []
    return [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]
