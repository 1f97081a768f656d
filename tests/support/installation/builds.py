"""Programs that compilers build once, into folders of the user's cache whose names have the digests of the sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from support.peers import locked
from support.project import ROOT

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcp-sdks"
LIMIT: Final = 900  # Seconds one build may take.
_NOTHING: Final[Mapping[str, str]] = {}


class BuildError(Exception):
    """A program cannot be built; the text is the end of what its compiler printed."""


def filled(word: str, source: Path, out: Path) -> str:
    """Return a word of a command with folders in it: {source} has the sources, {out} is the one of what is built, and
    {cache} that of all programs."""
    return word.format(source=source, out=out, cache=CACHE)


def digest_of(paths: Iterable[Path], root: Path = ROOT, more: str = "") -> str:
    """Return the digest of the files among these paths below a folder: of their names and contents, and of a text."""
    digest = hashlib.sha256(more.encode())
    for path in paths:
        if path.is_file():
            digest.update(f"\0{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def build_once(
    name: str, source: Path, commands: Sequence[Sequence[str]], variables: Mapping[str, str] = _NOTHING
) -> Path:
    """Return the folder with what commands build of the files of a folder, in which they are run. Raises BuildError."""
    out = CACHE / f"{name}-{digest_of(sorted(source.rglob('*')), source, repr(commands))[:16]}"
    with locked(out):
        if (out / "built").exists():
            return out
        print(f"building {name} in {out} …", file=sys.stderr)
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        environment = {**os.environ, **{key: filled(word, source, out) for key, word in variables.items()}}
        for words in commands:
            command = [filled(word, source, out) for word in words]
            try:
                subprocess.run(command, cwd=source, env=environment, check=True, timeout=LIMIT,
                               capture_output=True, text=True)  # fmt: skip
            except (subprocess.SubprocessError, OSError) as error:
                output = f"{getattr(error, 'stdout', '') or ''}{getattr(error, 'stderr', '') or error}".strip()
                raise BuildError(output[-1000:]) from error
        (out / "built").touch()
    return out
