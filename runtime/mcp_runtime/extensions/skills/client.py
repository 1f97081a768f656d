"""A client and an entry go in: the skill is read when it is needed, and nothing comes out that is not as the entry says."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, Self
from urllib.parse import quote

from pydantic import BaseModel

from ...errors import LocalError, SkillVerificationError
from ...protocol.models import is_list, is_object
from .entry import MAX_BYTES, SkillEntry


class SkillReader(Protocol):
    """A client that reads resources; that of the skills extension does."""

    def read_resource(self, *, uri: str) -> Awaitable[BaseModel]: ...

    def get_skill(self, *, uri: str) -> Awaitable[BaseModel]: ...


class VerifiedSkill:
    """A skill of a server, by the entry that a list, or the server when it was asked, has for it.

    Making one reads nothing from the server. With `dynamic`, also a skill whose files are not known beforehand: of
    these, the front matter and the total size are checked. Raises SkillVerificationError for an entry that breaks a rule.
    """

    def __init__(self, client: SkillReader, entry: BaseModel | Mapping[str, Any], *, dynamic: bool = False) -> None:
        said = entry.model_dump() if isinstance(entry, BaseModel) else entry
        self._client = client
        self._description = f"the skill {said.get('uri')!r}"
        try:
            self.entry = SkillEntry.parse(said)
        except ValueError as fault:
            raise SkillVerificationError(f"{self._description} {fault}") from None
        if self.entry.files is None and not dynamic:
            raise SkillVerificationError(f"{self._description} is dynamic: what it gives cannot be verified")
        self._dynamic = dynamic
        self._bytes_read: dict[str, int] = {}  # Bytes read, by URI, where nothing else bounds them.

    @classmethod
    async def fetch(cls, client: SkillReader, uri: str, *, dynamic: bool = False) -> Self:
        """The skill at this URI as it is now, listed or not. Raises RemoteJSONRPCError where the server has none there."""
        answer = (await client.get_skill(uri=uri)).model_dump()
        if answer["skill"]["uri"] != uri:
            raise SkillVerificationError(f"the skill {uri!r} was asked for, {answer['skill']['uri']!r} was given")
        return cls(client, answer["skill"], dynamic=dynamic)

    async def refresh(self) -> Self:
        """The skill as it is now; to be approved anew where its `approval` differs."""
        return await self.fetch(self._client, self.entry.uri, dynamic=self._dynamic)

    @property
    def approval(self) -> str:
        """What a user's approval is to be bound to: it changes with every file. Raises LocalError for a dynamic skill,
        of which an approval cannot last (SEP-2640, Content-bound approval)."""
        if self.entry.files is None:
            raise LocalError(f"{self._description} is dynamic: an approval cannot be bound to what is in it")
        lines = sorted(f"{each.uri} {each.digest}\n" for each in self.entry.files.values())
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def paths(self) -> list[str]:
        """The paths of the files, inside the skill's directory and as URIs write them; none for a dynamic skill."""
        return [uri.removeprefix(f"{self.entry.root}/") for uri in self.entry.files or {}]

    async def load(self) -> str:
        """The SKILL.md, for the model's context. Raises SkillVerificationError where it is not what the entry says: it must not be
        used then, and `again` may help."""
        try:
            return (await self._read(self.entry.uri)).decode("utf-8")
        except UnicodeDecodeError as fault:
            raise SkillVerificationError(f"{self._description}: its SKILL.md is not UTF-8: {fault.reason}") from None

    async def read(self, path: str) -> bytes:
        """A file of the skill, by its path inside its directory. Raises SkillVerificationError as `load`, also for a file that the
        entry does not list, without asking the server for it."""
        return await self._read(f"{self.entry.root}/{quote(path, safe=_SAFE)}")

    async def _read(self, uri: str) -> bytes:
        if not self.entry.has(uri):
            raise SkillVerificationError(f"{self._description}: {uri!r} is not among the files of the skill")
        answer = (await self._client.read_resource(uri=uri)).model_dump()
        try:
            data = _bytes(uri, answer.get("contents"))
            self._check_size(uri, len(data))
            self.entry.check(uri, data)
        except ValueError as fault:
            raise SkillVerificationError(f"{self._description}: {uri!r} {fault}") from None
        return data

    def _check_size(self, uri: str, size: int) -> None:
        if self.entry.files is None:
            self._bytes_read[uri] = size
            if sum(self._bytes_read.values()) > MAX_BYTES:
                raise ValueError(f"is more than there may be: {MAX_BYTES} bytes in all")


_SAFE = "/-._~%!$&'()*+,;=:@"  # What the path of a URI may have as it is (RFC 3986, 3.3), and what is encoded already.


def _bytes(uri: str, contents: Any) -> bytes:
    """The bytes of the one resource that was asked for. Raises ValueError."""
    found = [each for each in contents if is_object(each) and each.get("uri") == uri] if is_list(contents) else []
    if len(found) != 1 or len(contents) != 1:
        raise ValueError("was asked for, and it was not this alone that was given")
    if isinstance(text := found[0].get("text"), str):
        return text.encode("utf-8", errors="surrogatepass")
    try:
        return base64.b64decode(found[0].get("blob") or "", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("was given in base64 that is none") from None
