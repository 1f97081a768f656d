"""What a client was given goes in, under its issuer and resource; it comes out again, perhaps in a later process."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Registered:
    """A client as an authorization server knows it. `method`: how it shows itself at the token endpoint; None for what
    the server knows, basic first. `key`: a private key, PEM or JWK, for private_key_jwt. `issuer`: the one it is for;
    None for the first that is met. `signs`: the algorithm of the key."""

    id: str
    secret: str | None = field(default=None, repr=False)
    method: str | None = None
    key: str | None = field(default=None, repr=False)
    signs: str = "ES256"
    issuer: str | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """An access token and what it is good for. `expires`: seconds since the epoch, if the server said it."""

    access: str = field(repr=False)
    kind: str = "Bearer"
    scopes: tuple[str, ...] = ()
    expires: float | None = None
    refresh: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Kept:
    """All that is kept for one resource: the client and its token at one issuer."""

    issuer: str
    client: Registered
    token: Token | None = None


class Storage(Protocol):
    """Where credentials are kept, by the URL of the MCP server. A change of issuer replaces all that is kept."""

    async def load(self, server: str) -> Kept | None: ...

    async def save(self, server: str, kept: Kept | None) -> None: ...


class InMemory:
    """Keeps credentials as long as the process lasts."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    async def load(self, server: str) -> Kept | None:
        return self._kept.get(server)

    async def save(self, server: str, kept: Kept | None) -> None:
        if kept is None:
            self._kept.pop(server, None)
        else:
            self._kept[server] = kept


class InFile:
    """Keeps credentials in a file that its owner alone can read (mode 0600), replaced as a whole."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    async def load(self, server: str) -> Kept | None:
        said = self._read().get(server)
        return None if said is None else from_json(said)

    async def save(self, server: str, kept: Kept | None) -> None:
        every = self._read()
        every.pop(server, None)
        if kept is not None:
            every[server] = asdict(kept)
        # mkstemp gives 0600 from the start, so that there is no moment at which others can read.
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(every, file)
            os.replace(name, self._path)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise

    def _read(self) -> dict[str, Any]:
        try:
            said: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return said


def from_json(said: dict[str, Any]) -> Kept:
    """What asdict made of it."""
    token: dict[str, Any] | None = said["token"]
    if token is None:
        return Kept(said["issuer"], Registered(**said["client"]))
    scopes = tuple(token.pop("scopes"))
    return Kept(said["issuer"], Registered(**said["client"]), Token(scopes=scopes, **token))
