"""Peers that are programs of the official SDKs for Go, Rust and Java: their names go in, commands come out.

The sources are in tests/interop/sdks. A program is built once, into a folder of the user's cache whose name has the
digest of the sources. Where it cannot be built, the test that asks is skipped, and says why.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from support.peers import locked
from support.project import TESTS

SOURCES: Final = TESTS / "interop" / "sdks"
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcp-sdks"
LIMIT: Final = 900  # Seconds one build may take.


class Toolchain(NamedTuple):
    """How a peer is built: the programs this needs, the commands, and the command of the peer.

    In words, {source} is the folder of the sources, {out} the one of what is built, and {cache} that of all peers.
    """

    programs: tuple[str, ...]
    builds: tuple[tuple[str, ...], ...]
    peer: tuple[str, ...]
    variables: Mapping[str, str] = {}


TOOLCHAINS: Final = {
    "go": Toolchain(("go",), (("go", "build", "-trimpath", "-o", "{out}/peer", "."),), ("{out}/peer",)),
    "rust": Toolchain(
        ("cargo", "cc"),
        (
            (
                "cargo",
                "install",
                "--quiet",
                "--debug",
                "--locked",
                "--no-track",
                "--path",
                "{source}",
                "--root",
                "{out}",
            ),
        ),
        ("{out}/bin/peer",),
        {"CARGO_TARGET_DIR": "{cache}/rust-target"},
    ),
    "java": Toolchain(
        ("java", "javac", "mvn"),
        (
            ("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory={out}/libs"),
            (
                "javac",
                "-d",
                "{out}/classes",
                "-cp",
                "{out}/libs/*",
                "Peer.java",
                "PeerClient.java",
                "PeerJudge.java",
                "PeerServer.java",
            ),
        ),
        ("java", "-XX:TieredStopAtLevel=1", "-cp", f"{{out}}/classes{os.pathsep}{{out}}/libs/*", "Peer"),
    ),
}


def built(language: str) -> list[str]:
    """Return the command of a peer, such as "go". Skips the test where it cannot be built."""
    command = _built(language)
    if isinstance(command, str):
        pytest.skip(command)
    return command


@cache
def _built(language: str) -> list[str] | str:
    """Return the command of a peer, or why there is none."""
    toolchain, source = TOOLCHAINS[language], SOURCES / language
    missing = [program for program in toolchain.programs if shutil.which(program) is None]
    if missing:
        return f"the peer in {language} is not built: not on the PATH: {', '.join(missing)}"
    files = sorted(path for path in source.rglob("*") if path.is_file())
    digest = hashlib.sha256(b"\0".join(part for path in files for part in (path.name.encode(), path.read_bytes())))
    out = CACHE / f"{language}-{digest.hexdigest()[:16]}"
    fill: Callable[[str], str] = lambda word: word.format(source=source, out=out, cache=CACHE)
    with locked(out):
        if not (out / "built").exists():
            print(f"building the peer in {language} in {out} …", file=sys.stderr)
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            environment = {**os.environ, **{name: fill(value) for name, value in toolchain.variables.items()}}
            for words in toolchain.builds:
                try:
                    subprocess.run([*map(fill, words)], cwd=source, env=environment, check=True, timeout=LIMIT,
                                   capture_output=True, text=True)  # fmt: skip
                except (subprocess.SubprocessError, OSError) as error:
                    output = f"{getattr(error, 'stdout', '') or ''}{getattr(error, 'stderr', '') or error}".strip()
                    return f"the peer in {language} cannot be built: {output[-1000:]}"
            (out / "built").touch()
    return [*map(fill, toolchain.peer)]
