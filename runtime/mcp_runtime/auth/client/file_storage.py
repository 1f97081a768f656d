"""Credentials go in; a file of their owner's, or the keyring of the system, has them for the next process."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import tempfile
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ...errors import LocalError
from ...protocol.models import is_object
from .storage import StoredCredentials, credentials_from_json

_LOCK_TIMEOUT: Final = 10.0  # Seconds that another process may take to write.
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class FileTokenStorage:
    """Keeps credentials in a file that its owner alone can read (mode 0600), replaced as a whole. Raises LocalError for
    one that others can read, that belongs to somebody else, or that is a link. Processes that share it take turns;
    what they lock are files beside it, whose names begin with a dot."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    async def load(self, server: str) -> StoredCredentials | None:
        said = self._read().get(server)
        return None if said is None else _parse(said, str(self._path))

    async def save(self, server: str, credentials: StoredCredentials | None) -> None:
        from filelock import FileLock, Timeout

        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with FileLock(self._sibling("lock"), timeout=_LOCK_TIMEOUT, mode=0o600):
                every = self._read()
                every.pop(server, None)
                if credentials is not None:
                    every[server] = asdict(credentials)
                self._write(json.dumps(every))
        except Timeout:
            raise LocalError(f"{self._path}: another process has written to it for {_LOCK_TIMEOUT:g} seconds") from None

    def lock(self, server: str) -> AbstractAsyncContextManager[object]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _acquire(self._sibling(f"{_digest(server)}.lock"))

    def _sibling(self, kind: str) -> Path:
        return self._path.with_name(f".{self._path.name}.{kind}")

    def _write(self, text: str) -> None:
        # mkstemp gives 0600 from the start, so that there is no moment at which others can read.
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, self._path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise

    def _read(self) -> dict[str, Any]:
        try:
            handle = os.open(self._path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            return {}
        except OSError as fault:
            raise LocalError(f"{self._path}: cannot be read, or is a link: {fault.strerror}") from None
        try:
            self._check(os.fstat(handle))
            with open(handle, encoding="utf-8", closefd=False) as file:
                said: object = json.load(file)
        except (ValueError, RecursionError):
            said = None
        finally:
            os.close(handle)
        if not is_object(said):
            raise LocalError(f"{self._path}: is not what credentials were kept in; remove it to log in anew")
        return said

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise LocalError(f"{self._path}: is no file")
        if os.name == "posix" and found.st_uid != os.geteuid():
            raise LocalError(f"{self._path}: belongs to another user")
        if os.name == "posix" and found.st_mode & _OTHERS:
            raise LocalError(f"{self._path}: others can read or change it; chmod 600 it, or remove it to log in anew")


class KeyringTokenStorage:
    """Keeps credentials in the keyring of the system (extra `keyring`), an entry for each server under this name of a
    service. Processes of one user take turns by files in `locks`, by default a folder in the user's cache."""

    def __init__(self, service: str = "mcp-codegen", locks: str | Path | None = None) -> None:
        try:
            import keyring
            import keyring.errors
        except ImportError:
            raise LocalError("the system's keyring needs keyring: pip install 'mcp-codegen[keyring]'") from None
        self._keyring = keyring
        self._service = service
        self._locks = Path(locks) if locks is not None else Path.home() / ".cache" / "mcp-codegen"

    async def load(self, server: str) -> StoredCredentials | None:
        text = await asyncio.to_thread(self._call, self._keyring.get_password, server)
        if text is None:
            return None
        try:
            said: object = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        return _parse(said, f"the entry {self._service!r} of the keyring")

    async def save(self, server: str, credentials: StoredCredentials | None) -> None:
        if credentials is not None:
            text = json.dumps(asdict(credentials))
            await asyncio.to_thread(self._call, self._keyring.set_password, server, text)
        elif await self.load(server) is not None:
            await asyncio.to_thread(self._call, self._keyring.delete_password, server)

    def lock(self, server: str) -> AbstractAsyncContextManager[object]:
        self._locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _acquire(self._locks / f"{_digest(f'{self._service} {server}')}.lock")

    def _call(self, what: Any, server: str, *more: str) -> str | None:
        try:
            found: str | None = what(self._service, server, *more)
        except self._keyring.errors.KeyringError as fault:
            # Its text may be of a backend that repeats what it was given.
            raise LocalError(f"the keyring of this system cannot be used: {type(fault).__name__}") from None
        return found


def _acquire(lock: Path) -> AbstractAsyncContextManager[object]:
    from filelock import AsyncFileLock

    return AsyncFileLock(lock, mode=0o600, run_in_executor=False)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _parse(text: object, where: str) -> StoredCredentials:
    try:
        return credentials_from_json(text)
    except (TypeError, KeyError, AttributeError):
        raise LocalError(f"{where}: is not what credentials were kept in; remove it to log in anew") from None
