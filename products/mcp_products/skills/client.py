"""Skills of a server, read on demand and verified against their published entry."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, Self
from urllib.parse import quote

from pydantic import BaseModel

from mcp_runtime.errors import LocalError, SkillVerificationError
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.protocol.uris import is_same_uri

from .entry import MAX_BYTES, SkillEntry

_SAFE = "/-._~%!$&'()*+,;=:@"  # The characters allowed in a URI path (RFC 3986, section 3.3), and percent-encodings.


class SkillReader(Protocol):
    """The methods of a client with the skills extension that a skill needs."""

    def read_resource(self, *, uri: str) -> Awaitable[BaseModel]: ...

    def get_skill(self, *, uri: str) -> Awaitable[BaseModel]: ...


class VerifiedSkill:
    """A skill of a server, verified against its entry from the skills list or from `get_skill`."""

    def __init__(self, client: SkillReader, entry: BaseModel | Mapping[str, Any], *, dynamic: bool = False) -> None:
        """Check the entry; this reads nothing from the server.

        Args:
            client: The client to read the files with.
            entry: The entry of the skill, a model or a dict.
            dynamic: True accepts a skill that does not list its files; then only the front matter and the total size
                are verified.

        Raises SkillVerificationError if the entry breaks a rule.
        """
        fields = entry.model_dump() if isinstance(entry, BaseModel) else entry
        self._client = client
        self._description = f"the skill {fields.get('uri')!r}"
        try:
            self.entry = SkillEntry.parse(fields)
        except ValueError as error:
            raise SkillVerificationError(f"{self._description} {error}") from None
        if self.entry.files is None and not dynamic:
            raise SkillVerificationError(
                f"{self._description} is dynamic, so its files cannot be verified; pass dynamic=True to accept this"
            )
        self._dynamic = dynamic
        self._bytes_read: dict[str, int] = {}  # The bytes read by URI, to limit dynamic skills.

    @classmethod
    async def fetch(cls, client: SkillReader, uri: str, *, dynamic: bool = False) -> Self:
        """Return the current skill at a URI, listed or not. Raises RemoteJSONRPCError if the server has no skill
        there."""
        result = (await client.get_skill(uri=uri)).model_dump()
        if not is_same_uri(result["skill"]["uri"], uri):
            raise SkillVerificationError(
                f"the server returned the skill {result['skill']['uri']!r} for the requested skill {uri!r}"
            )
        return cls(client, result["skill"], dynamic=dynamic)

    async def refresh(self) -> Self:
        """Return the current version of the skill; ask the user for approval again if its `approval` differs."""
        return await self.fetch(self._client, self.entry.uri, dynamic=self._dynamic)

    @property
    def approval(self) -> str:
        """A digest of all files, to bind the user's approval to (SEP-2640, Content-bound approval).

        Raises LocalError for a dynamic skill, whose content is not fixed.
        """
        if self.entry.files is None:
            raise LocalError(f"{self._description} is dynamic: an approval cannot be bound to its content")
        lines = sorted(f"{file.uri} {file.digest}\n" for file in self.entry.files.values())
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def paths(self) -> list[str]:
        """The percent-encoded paths of the files in the skill's directory; empty for a dynamic skill."""
        return [uri.removeprefix(f"{self.entry.root}/") for uri in self.entry.files or {}]

    async def load(self) -> str:
        """Return the text of SKILL.md, for the model's context.

        Raises SkillVerificationError if it does not match the entry; do not use the skill then, or `refresh` it first.
        """
        try:
            return (await self._read(self.entry.uri)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise SkillVerificationError(f"{self._description}: its SKILL.md is not UTF-8: {error.reason}") from None

    async def read(self, path: str) -> bytes:
        """Return a file of the skill, by its path in the skill's directory.

        Raises SkillVerificationError if it does not match the entry, and, without a request, if the entry does not list
        it.
        """
        return await self._read(f"{self.entry.root}/{quote(path, safe=_SAFE)}")

    async def _read(self, uri: str) -> bytes:
        if not self.entry.has(uri):
            raise SkillVerificationError(f"{self._description}: {uri!r} is not among the files of the skill")
        result = (await self._client.read_resource(uri=uri)).model_dump()
        try:
            data = _bytes(uri, result.get("contents"))
            self._check_size(uri, len(data))
            self.entry.check(uri, data)
        except ValueError as error:
            raise SkillVerificationError(f"{self._description}: {uri!r} {error}") from None
        return data

    def _check_size(self, uri: str, size: int) -> None:
        if self.entry.files is None:
            self._bytes_read[uri] = size
            if sum(self._bytes_read.values()) > MAX_BYTES:
                raise ValueError(f"makes the skill larger than {MAX_BYTES} bytes")


def _is_at(found: object, uri: str) -> bool:
    return isinstance(found, str) and is_same_uri(found, uri)


def _bytes(uri: str, contents: Any) -> bytes:
    """Return the bytes of the requested resource. Raises ValueError if the contents are not exactly this resource."""
    matches = (
        [content for content in contents if is_object(content) and _is_at(content.get("uri"), uri)]
        if is_list(contents)
        else []
    )
    if len(matches) != 1 or len(contents) != 1:
        raise ValueError("was requested, but the server returned other or additional contents")
    if isinstance(text := matches[0].get("text"), str):
        return text.encode("utf-8", errors="surrogatepass")
    try:
        return base64.b64decode(matches[0].get("blob") or "", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("has invalid base64") from None
