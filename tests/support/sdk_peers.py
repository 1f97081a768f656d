"""Peers that are programs of the official SDKs for Go, Rust and Java: their names go in, commands come out.

The sources are in tests/interop/sdks. Where a program cannot be built, the test that asks is skipped, and says why.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

import pytest

from support.installation.builds import BuildError, build_once, filled
from support.project import TESTS

SOURCES: Final = TESTS / "interop" / "sdks"


class Toolchain(NamedTuple):
    """How a peer is built: the programs that this needs, the commands, and the command of the peer.

    Their words are those of `filled`.
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
    try:
        out = build_once(language, source, toolchain.builds, toolchain.variables)
    except BuildError as error:
        return f"the peer in {language} cannot be built: {error}"
    return [filled(word, source, out) for word in toolchain.peer]
