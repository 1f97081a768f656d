"""A cache of what was generated, by a digest of all that it was made from. It may be deleted at any time.

Its folder is `mcp-codegen` in the cache of the user; MCP_CODEGEN_CACHE names another one, and `off` switches it off.
A folder that others can write is not used.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Final

from .paths import PACKAGE, generator_version

VARIABLE: Final = "MCP_CODEGEN_CACHE"
# Entries of a kind that are retained, the newest ones.
_MAX_ENTRIES: Final = {"output": 8, "types": 64}


def cached(kind: str, parts: Iterable[str | bytes], make: Callable[[], str]) -> str:
    """Return what `make` gives for these parts: from the cache, or made now and stored."""
    folder = _folder()
    if folder is None:
        return make()
    path = folder / kind / digest([kind, *parts])
    text = _stored(path)
    if text is None:
        text = make()
        _store(path, text.encode(), _MAX_ENTRIES[kind])
    return text


def _stored(path: Path) -> str | None:
    """Return the text of an entry, or None without a whole one."""
    with suppress(OSError, UnicodeDecodeError):
        data = path.read_bytes()
        checksum, _, text = data.partition(b"\n")
        if checksum.decode() == digest([text]):
            with suppress(OSError):
                os.utime(path)
            return text.decode()
    return None


def digest(parts: Iterable[str | bytes]) -> str:
    """Return a digest of texts, each with its length."""
    hashed = sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        hashed.update(b"%d:" % len(data) + data)
    return hashed.hexdigest()


def tree_digest(folder: Path, pattern: str = "**/*") -> str:
    """Return a digest of the files below a folder, with their paths."""
    files = sorted(path for path in folder.glob(pattern) if path.is_file() and "__pycache__" not in path.parts)
    return digest(part for path in files for part in (path.relative_to(folder).as_posix(), path.read_bytes()))


@cache
def generator_digest() -> str:
    """Return a digest of this package, and of the versions that its output depends on."""
    tools = ("datamodel-code-generator", "jinja2", "pydantic", "ruff", "tree-sitter-typescript")
    own = [sys.version, generator_version(), tree_digest(PACKAGE, "**/*.py"), tree_digest(PACKAGE / "render", "*.toml")]
    return digest([*own, *(f"{name} {version(name)}" for name in tools)])


def _folder() -> Path | None:
    """Return the folder of the cache, which only its user can write; None without one."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen == "off":
        return None
    with suppress(OSError, RuntimeError):
        home = os.environ.get("XDG_CACHE_HOME")
        folder = Path(chosen) if chosen else (Path(home) if home else Path.home() / ".cache") / "mcp-codegen"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if sys.platform == "win32":
            return folder
        if status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return folder
    return None


def _store(path: Path, data: bytes, limit: int) -> None:
    """Write an entry in one step, and remove the oldest ones beyond the limit. A failure leaves no entry."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            temporary.write_bytes(digest([data]).encode() + b"\n" + data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        present = sorted(path.parent.iterdir(), key=lambda entry: entry.stat().st_mtime)
        for entry in present[:-limit] if len(present) > limit else ():
            entry.unlink(missing_ok=True)
