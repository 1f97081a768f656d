"""Credentials of an OAuth client, and where they are stored."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol

from pydantic import TypeAdapter, ValidationError

from mcp_products.platforms.private_files import replace_private_file
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_object

_LOCK_TIMEOUT: Final = 10.0  # Seconds to wait for another process that writes.
_POLL_SECONDS: Final = 0.02  # Seconds until a lock is tried again that another thread may hold.
_GROUP_AND_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class OAuthClientInformation:
    """A client as it is registered with an authorization server (https://www.rfc-editor.org/rfc/rfc7591#section-3.2.1).

    Args:
        client_id: Client identifier.
        client_secret: Client secret. Default None: a public client, or one with a private key.
        token_endpoint_auth_method: Method of client authentication. Default None: `private_key_jwt` with a private key,
            `none` without a secret, else the first of `client_secret_basic` and `client_secret_post` that the server
            supports.
        private_key: Private key for `private_key_jwt`, as PEM or JWK.
        signing_algorithm: Algorithm of the private key. Default `ES256`.
        issuer: Issuer identifier of the authorization server. Default None: the first one that the MCP server names;
            the client is bound to it from then on.
        redirect_uri: Redirect URI of a client that registered itself.
    """

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    token_endpoint_auth_method: str | None = None
    private_key: str | None = field(default=None, repr=False)
    signing_algorithm: str = "ES256"
    issuer: str | None = None
    redirect_uri: str | None = None


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """An access token, from a token response (https://www.rfc-editor.org/rfc/rfc6749#section-5.1).

    Args:
        access_token: The access token.
        token_type: `Bearer` or `DPoP`. Default `Bearer`.
        scopes: Scopes of the token. Default: none.
        expires_at: Time at which the token expires, in seconds since the epoch. Default None: unknown.
        refresh_token: The refresh token. Default None: there is none.
        dpop_thumbprint: Thumbprint of the key that the token is bound to. Default None: it is not bound to a key.
        lifetime: Seconds for which the token was valid when it was issued. Default None: unknown.
    """

    access_token: str = field(repr=False)
    token_type: str = "Bearer"
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None
    refresh_token: str | None = field(default=None, repr=False)
    dpop_thumbprint: str | None = None
    lifetime: float | None = None

    def is_due(self, now: float, before: float) -> bool:
        """Return True if the token should be renewed.

        Args:
            now: The time, in seconds since the epoch.
            before: Seconds before its expiry that a token is renewed; of a token that is short-lived, its last quarter.
        """
        return self.expires_at is not None and now > self.expires_at - seconds_before_expiry(self.lifetime, before)


def seconds_before_expiry(lifetime: float | None, before: float) -> float:
    """Return how many seconds before its expiry a token is renewed: `before`, but at most a quarter of its lifetime.

    Else a token that is valid for less than `before` seconds would be renewed at each request.
    """
    return before if lifetime is None else min(before, lifetime / 4)


@dataclass(frozen=True, slots=True)
class StoredCredentials:
    """The stored credentials for one MCP server.

    Args:
        issuer: Issuer identifier of the authorization server.
        client: The client as it is registered there.
        token: The token. Default None: there is none yet.
    """

    issuer: str
    client: OAuthClientInformation
    token: OAuthToken | None = None


class TokenStorage(Protocol):
    """A storage of credentials, by the URL of the MCP server. It holds the credentials of one issuer for each
    server."""

    async def load(self, server: str) -> StoredCredentials | None:
        """Return the credentials for a server, if there are any."""
        ...

    async def save(self, server: str, credentials: StoredCredentials | None) -> None:
        """Store the credentials for a server; None deletes them."""

    def lock(self, server: str) -> AbstractAsyncContextManager[object]:
        """Return a lock that all users of this storage share. Only its holder requests tokens for the server: using a
        refresh token twice would revoke all tokens of its grant."""
        ...


class InMemoryTokenStorage:
    """Stores credentials in memory, until the process ends."""

    def __init__(self) -> None:
        """Create an empty storage."""
        self._credentials: dict[str, StoredCredentials] = {}
        self._locks: dict[str, threading.Lock] = {}

    async def load(self, server: str) -> StoredCredentials | None:
        """Return the credentials for a server, if there are any."""
        return self._credentials.get(server)

    async def save(self, server: str, credentials: StoredCredentials | None) -> None:
        """Store the credentials for a server; None deletes them."""
        if credentials is None:
            self._credentials.pop(server, None)
        else:
            self._credentials[server] = credentials

    def lock(self, server: str) -> AbstractAsyncContextManager[object]:
        """Return a lock on the tokens for a server, shared by all clients of the process."""
        return held(self._locks.setdefault(server, threading.Lock()))


@asynccontextmanager
async def held(lock: threading.Lock) -> AsyncGenerator[None]:
    """Hold a lock that clients of several threads share, each with an event loop of its own."""
    while not lock.acquire(blocking=False):  # noqa: ASYNC110  # An event belongs to one event loop.
        await asyncio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()


_CREDENTIALS: Final = TypeAdapter(StoredCredentials)  # Read by their types: a person may have edited the file.


# Storage of credentials in a file, or in the keyring of the system.


class FileTokenStorage:
    """Stores credentials in a file that only its owner can read: by mode 0600, on Windows by an access control list.

    Every write replaces the whole file. Several processes may share it: they lock files in the same folder, with names
    that begin with a dot. Methods raise LocalError if others can read the file, if another user owns it, or if it is a
    link.
    """

    def __init__(self, path: str | Path) -> None:
        """Create a storage.

        Args:
            path: The file. It is created when credentials are saved for the first time.
        """
        self._path = Path(path)

    async def load(self, server: str) -> StoredCredentials | None:
        """Return the credentials for a server, if there are any."""
        value = self._read().get(server)
        return None if value is None else _parse(value, str(self._path))

    async def save(self, server: str, credentials: StoredCredentials | None) -> None:
        """Store the credentials for a server; None deletes them."""
        from filelock import FileLock, Timeout

        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(self._sibling("lock"), timeout=_LOCK_TIMEOUT, mode=0o600):
                entries = self._read()
                entries.pop(server, None)
                if credentials is not None:
                    entries[server] = asdict(credentials)
                replace_private_file(self._path, json.dumps(entries), "use KeyringTokenStorage instead")
        except Timeout:
            raise LocalError(f"{self._path}: another process has locked it for {_LOCK_TIMEOUT:g} seconds") from None
        except OSError as error:
            raise _unwritable(self._path, error) from None

    def lock(self, server: str) -> AbstractAsyncContextManager[object]:
        """Return a lock on the tokens for a server, shared by all processes that use this file."""
        return _acquire(self._sibling(f"{_digest(server)}.lock"))

    def _sibling(self, suffix: str) -> Path:
        return self._path.with_name(f".{self._path.name}.{suffix}")

    def _read(self) -> dict[str, Any]:
        try:
            handle = os.open(self._path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise LocalError(f"{self._path}: cannot be read, or is a link: {error.strerror}") from None
        try:
            self._check(os.fstat(handle))
            with open(handle, encoding="utf-8", closefd=False) as file:
                entries: object = json.load(file)
        except (ValueError, RecursionError):
            entries = None
        finally:
            os.close(handle)
        if not is_object(entries):
            raise LocalError(f"{self._path}: has no stored credentials in it; remove it to log in again")
        return entries

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise LocalError(f"{self._path}: is not a regular file")
        if sys.platform == "win32":
            return  # An access control list restricts it: see restrict_to_owner.
        if status.st_uid != os.geteuid():
            raise LocalError(f"{self._path}: belongs to another user")
        if status.st_mode & _GROUP_AND_OTHERS:
            raise LocalError(f"{self._path}: others can read or change it; chmod 600 it, or remove it to log in again")


class KeyringTokenStorage:
    """Stores credentials in the keyring of the system, in one entry for each server. Needs the extra `keyring`."""

    def __init__(self, service: str = "mcp-codegen", locks: str | Path | None = None) -> None:
        """Create a storage. Raises LocalError if `keyring` is not installed.

        Args:
            service: Service name of the entries. Default `mcp-codegen`.
            locks: Folder of the lock files by which the user's processes wait for each other. Default:
                `.cache/mcp-codegen` in the user's home.
        """
        try:
            import keyring
            import keyring.errors
        except ModuleNotFoundError:
            raise LocalError("the keyring of the system needs keyring: pip install 'mcp-generated[keyring]'") from None
        self._keyring = keyring
        self._service = service
        self._locks = Path(locks) if locks is not None else Path.home() / ".cache" / "mcp-codegen"

    async def load(self, server: str) -> StoredCredentials | None:
        """Return the credentials for a server, if there are any."""
        text = await asyncio.to_thread(self._call, self._keyring.get_password, server)
        if text is None:
            return None
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        return _parse(value, f"the keyring entry of {self._service!r}")

    async def save(self, server: str, credentials: StoredCredentials | None) -> None:
        """Store the credentials for a server; None deletes them."""
        if credentials is not None:
            text = json.dumps(asdict(credentials))
            await asyncio.to_thread(self._call, self._keyring.set_password, server, text)
        elif await self.load(server) is not None:
            await asyncio.to_thread(self._call, self._keyring.delete_password, server)

    def lock(self, server: str) -> AbstractAsyncContextManager[object]:
        """Return a lock on the tokens for a server, shared by all processes with the same folder of lock files."""
        return _acquire(self._locks / f"{_digest(f'{self._service} {server}')}.lock")

    def _call(self, method: Any, server: str, *arguments: str) -> str | None:
        try:
            password: str | None = method(self._service, server, *arguments)
        except self._keyring.errors.KeyringError as error:
            # The text of the error is not repeated: some backends put the password into it.
            raise LocalError(f"the keyring of the system cannot be used: {type(error).__name__}") from None
        return password


@asynccontextmanager
async def _acquire(path: Path) -> AsyncGenerator[None]:
    from filelock import AsyncFileLock

    lock = AsyncFileLock(path, mode=0o600, run_in_executor=False)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await lock.acquire()
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        yield
    finally:
        await lock.release()


def _unwritable(path: Path, error: OSError) -> LocalError:
    return LocalError(
        f"{path}: cannot be written: {error.strerror or error}; choose a folder that this user may change"
    )


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _parse(value: object, source: str) -> StoredCredentials:
    try:
        return _CREDENTIALS.validate_python(value)
    except ValidationError:
        raise LocalError(f"{source}: has no stored credentials in it; remove it to log in again") from None
