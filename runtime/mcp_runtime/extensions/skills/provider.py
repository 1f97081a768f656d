"""A folder of skills goes in; the entries, files and directories that a server publishes of them come out, as JSON."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from ...errors import LocalError
from ...session.pending import log
from .entry import MAX_BYTES, MAX_FILES, SKILL, SkillEntry, sha256_digest
from .frontmatter import parse_front_matter
from .safe_directory import FileState, PathParts, SafeDirectory, UnservableFileError

DIRECTORY_MIME_TYPE: Final = "inode/directory"
_SCHEME: Final = "skill://"
_KINDS: Final = mimetypes.MimeTypes(filenames=())  # The same on every machine.


@dataclass(frozen=True, slots=True)
class SkillContent:
    """What is in a file; `text` where it is UTF-8, and not otherwise."""

    data: bytes
    kind: str
    text: str | None


@dataclass(frozen=True, slots=True)
class _CachedSkill:
    """What was found in a file when it was in this state."""

    state: FileState
    digest: str
    frontmatter: dict[str, Any] | None


class SkillDirectory:
    """The skills in a folder, at any depth: each folder with a SKILL.md is one, the folder itself may be.

    Their URIs are `skill://`, `under` (such as "acme/billing"), and their path in the folder. What changes on disk is
    seen when it is asked for. Blocks while it reads. Raises LocalError for a folder without a skill, and for a skill
    that is none: see `entry.SkillEntry`. Links are refused; what begins with a dot is left out.
    """

    def __init__(self, folder: str | os.PathLike[str], *, under: str = "") -> None:
        self._directory = SafeDirectory(folder)
        self._cache: dict[PathParts, _CachedSkill] = {}
        above = [quote(part, safe="") for part in under.split("/") if part]
        if self._is_skill(()):
            above.append(quote(self._directory.path.name, safe=""))
        self._prefix = _SCHEME + "/".join(above)
        try:
            found = [self._build_entry(parts) for parts in self._skills()]
        except (OSError, ValueError) as fault:
            raise LocalError(f"the skills in {self._directory.path} cannot be served: {fault}") from fault
        if not found:
            raise LocalError(f"there is no {SKILL} in {self._directory.path}")

    def uris(self) -> list[str]:
        """The URIs of the skills, in the order of their paths."""
        try:
            return [self._uri((*parts, SKILL)) for parts in self._skills()]
        except (OSError, UnservableFileError) as fault:
            log.warning("the skills in %s are not listed: %s", self._directory.path, fault)
            return []

    def entry(self, uri: str) -> dict[str, Any] | None:
        """The skill at this URI as it is now; None where there is none, or what is there must not be served."""
        parts = self._parts(uri)
        if not parts or parts[-1] != SKILL or not self._is_skill(parts[:-1]):
            return None
        try:
            return self._build_entry(parts[:-1])
        except (OSError, ValueError) as fault:
            log.warning("the skill %s is not served: %s", uri, fault)
            return None

    def resource(self, uri: str) -> dict[str, Any] | None:
        """What lists of resources say of the skill at this URI."""
        entry = self.entry(uri)
        return None if entry is None else self._resource(self._parts(uri) or (), self._entry_file(entry)["size"])

    def content(self, uri: str) -> SkillContent | None:
        """What is in the file at this URI; None where there is none inside a skill."""
        parts = self._parts(uri)
        if not parts or not self._is_inside(parts[:-1]):
            return None
        try:
            data, _ = self._directory.read(parts, MAX_BYTES)
        except (OSError, UnservableFileError):
            return None
        kind = _kind(parts[-1])
        try:
            return SkillContent(data, kind or "text/plain", data.decode("utf-8"))
        except UnicodeDecodeError:
            return SkillContent(data, kind or "application/octet-stream", None)

    def children(self, uri: str) -> list[dict[str, Any]] | None:
        """What is directly in the directory at this URI; None where there is none inside a skill."""
        parts = self._parts(uri)
        if parts is None or not self._is_inside(parts):
            return None
        try:
            files, folders = self._directory.names(parts)
        except (OSError, UnservableFileError):
            return None
        shown = {name: self._resource((*parts, name), state[2]) for name, state in files.items()}
        shown |= {
            each: {"uri": self._uri((*parts, each)), "name": each, "mimeType": DIRECTORY_MIME_TYPE} for each in folders
        }
        return [shown[name] for name in sorted(shown)]

    # ---- below the folder -------------------------------------------------------------------------------------------

    def _skills(self, parts: PathParts = ()) -> Iterator[PathParts]:
        files, folders = self._directory.names(parts)
        if SKILL in files:
            yield parts
        for each in folders:
            yield from self._skills((*parts, each))

    def _is_skill(self, parts: PathParts) -> bool:
        try:
            return SKILL in self._directory.names(parts)[0]
        except (OSError, UnservableFileError):
            return False

    def _is_inside(self, parts: PathParts) -> bool:
        """Whether a folder is that of a skill, or lies in one."""
        return any(self._is_skill(parts[:count]) for count in range(len(parts) + 1))

    def _build_entry(self, parts: PathParts) -> dict[str, Any]:
        """The entry of the skill in this folder. Raises ValueError for one that breaks a rule, naming it."""
        resources: list[dict[str, Any]] = []
        size = 0
        uri = self._uri((*parts, SKILL))
        for path, state in self._directory.files(parts):
            size += state[2]
            if len(resources) == MAX_FILES or size > MAX_BYTES:
                raise ValueError(f"the skill {uri!r} has more than {MAX_FILES} files or {MAX_BYTES} bytes")
            known = self._inspect(path, state)
            resources.append({"uri": self._uri(path), "digest": known.digest, "size": known.state[2]})
        made = {"uri": uri, "frontmatter": self._cache[*parts, SKILL].frontmatter, "resources": resources}
        try:
            SkillEntry.parse(made)
        except ValueError as fault:
            raise ValueError(f"the skill {uri!r} {fault}") from None
        return made

    def _inspect(self, path: PathParts, state: FileState) -> _CachedSkill:
        """What is known of a file; it is read again where it is not what it was."""
        known = self._cache.get(path)
        if known is None or known.state != state:
            data, found = self._directory.read(path, MAX_BYTES)
            found = (*found[:2], len(data), found[3])
            try:
                frontmatter = parse_front_matter(data) if path[-1] == SKILL else None
                if frontmatter is not None:
                    data.decode("utf-8")
            except UnicodeDecodeError:
                raise ValueError(f"{'/'.join(path)} is not UTF-8") from None
            except ValueError as fault:
                raise ValueError(f"{'/'.join(path)} {fault}") from None
            known = self._cache[path] = _CachedSkill(found, sha256_digest(data), frontmatter)
        return known

    def _resource(self, parts: PathParts, size: int) -> dict[str, Any]:
        """What lists say of a file: of a SKILL.md, what its front matter says."""
        kind = _kind(parts[-1])
        shown = {"uri": self._uri(parts), "name": parts[-1], "size": size} | ({"mimeType": kind} if kind else {})
        known = self._cache.get(parts)
        said = known.frontmatter if known is not None else None
        return shown if said is None else {**shown, "name": said["name"], "description": said["description"]}

    @staticmethod
    def _entry_file(entry: dict[str, Any]) -> dict[str, Any]:
        own: dict[str, Any] = next(each for each in entry["resources"] if each["uri"] == entry["uri"])
        return own

    # ---- names ------------------------------------------------------------------------------------------------------

    def _uri(self, parts: PathParts) -> str:
        path = "/".join(quote(part, safe="") for part in parts)
        return self._prefix + ("/" if path and self._prefix != _SCHEME else "") + path

    def _parts(self, uri: str) -> PathParts | None:
        """The path that a URI names, if it is written as it is published: in no other way, and not out of here."""
        if uri == self._prefix:
            return ()
        start = self._prefix if self._prefix == _SCHEME else f"{self._prefix}/"
        if not uri.startswith(start):
            return None
        parts = tuple(unquote(segment) for segment in uri.removeprefix(start).split("/"))
        if any(part.startswith(".") or {"/", "\0"} & {*part} for part in parts) or self._uri(parts) != uri:
            return None
        return parts


def _kind(name: str) -> str | None:
    """The MIME type of a file, as far as its name says it."""
    if name.endswith(".md"):
        return "text/markdown"
    found, encoding = _KINDS.guess_type(name)
    return None if encoding is not None else found
