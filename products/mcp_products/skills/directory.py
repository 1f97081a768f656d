"""Skills in a folder: the entries, files and directories that a server publishes."""

from __future__ import annotations

import logging
import mimetypes
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.uris import tidy_uri

from .entry import MAX_BYTES, MAX_FILES, SKILL_FILE, SkillEntry, sha256_digest
from .frontmatter import parse_front_matter

# Directories that are read without leaving them, also if files are replaced by links at the same time.

PathParts = tuple[str, ...]
FileState = tuple[int, int, int, int]  # Device, inode, size and modification time of a file.

MAX_DEPTH: Final = 32
_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_DIRECTORY_FLAG: Final = getattr(os, "O_DIRECTORY", 0)
_NONBLOCK_FLAG: Final = getattr(os, "O_NONBLOCK", 0)  # Opening a pipe must not block.
_log: Final = logging.getLogger("mcp_runtime.extensions.skills.directory")
DIRECTORY_MIME_TYPE: Final = "inode/directory"
_SCHEME: Final = "skill://"
_MIME_TYPES: Final = mimetypes.MimeTypes(filenames=())  # Without system files, so that it is the same on every machine.


class UnservableFileError(ValueError):
    """Raised for a file that cannot be served, such as a link; the message begins with its path."""


class SafeDirectory:
    """A directory whose files are read without following links. Names that begin with a dot are ignored."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Resolve the path. Raises LocalError if it is not a directory, or if the platform lacks `openat`."""
        self.path = Path(path).resolve()
        if os.open not in os.supports_dir_fd:
            raise LocalError(
                "skills cannot be served on this platform: it cannot open files relative to a directory (openat); "
                "run the server on Linux or macOS, or on Windows in WSL"
            )
        if not self.path.is_dir():
            raise LocalError(f"{self.path} is not a directory")

    def read(self, parts: PathParts, max_bytes: int) -> tuple[bytes, FileState]:
        """Return the bytes and the state of a file.

        Raises OSError if it cannot be opened, UnservableFileError if it is not a regular file or exceeds `max_bytes`.
        """
        with self._open(parts[:-1]) as folder:
            file = os.open(parts[-1], _OPEN_FLAGS | _NONBLOCK_FLAG, dir_fd=folder)
            with open(file, "rb") as stream:
                status = os.fstat(file)
                if not stat.S_ISREG(status.st_mode):
                    raise UnservableFileError(f"{'/'.join(parts)} is neither a file nor a directory")
                data = stream.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise UnservableFileError(f"{'/'.join(parts)} has more than {max_bytes} bytes")
        return data, _state(status)

    def files(self, below: PathParts = ()) -> Iterator[tuple[PathParts, FileState]]:
        """Yield all files below a directory in the order of their paths. Raises UnservableFileError for other
        entries."""
        files, folders = self.names(below)
        for name, state in sorted({**files, **dict.fromkeys(folders, None)}.items()):
            if state is None:
                yield from self.files((*below, name))
            else:
                yield (*below, name), state

    def names(self, parts: PathParts) -> tuple[dict[str, FileState], list[str]]:
        """Return the files and the directories in a directory. Raises the errors of `files`."""
        if len(parts) > MAX_DEPTH:
            raise UnservableFileError(f"{'/'.join(parts)} is more than {MAX_DEPTH} levels deep")
        files: dict[str, FileState] = {}
        folders: list[str] = []
        with self._open(parts) as folder, os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    files[entry.name] = _state(status)
                elif stat.S_ISDIR(status.st_mode):
                    folders.append(entry.name)
                else:
                    kind = "a link" if stat.S_ISLNK(status.st_mode) else "neither a file nor a directory"
                    raise UnservableFileError(f"{'/'.join((*parts, entry.name))} is {kind}")
        return files, sorted(folders)

    @contextmanager
    def _open(self, parts: Sequence[str]) -> Generator[int]:
        """Open a directory one segment at a time, so that no segment follows a link."""
        folder = os.open(self.path, os.O_RDONLY | _DIRECTORY_FLAG)
        try:
            for part in parts:
                child = os.open(part, _OPEN_FLAGS | _DIRECTORY_FLAG, dir_fd=folder)
                os.close(folder)
                folder = child
            yield folder
        finally:
            os.close(folder)


def _state(status: os.stat_result) -> FileState:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@dataclass(frozen=True, slots=True)
class SkillContent:
    """The content of a file; `text` is None if it is not UTF-8."""

    data: bytes
    mime_type: str
    text: str | None


@dataclass(frozen=True, slots=True)
class _CachedSkill:
    """The digest and the front matter of a file in a state."""

    state: FileState
    digest: str
    frontmatter: dict[str, Any] | None


class SkillDirectory:
    """The skills in a folder, at any depth: each directory with a SKILL.md is a skill, also the folder itself.

    Changes on disk take effect with the next request. All methods block while they read. Symbolic links are refused;
    names that begin with a dot are ignored.
    """

    def __init__(self, folder: str | os.PathLike[str], *, under: str = "") -> None:
        """Read and check all skills.

        Args:
            folder: The folder that contains the skills.
            under: The path between `skill://` and the path in the folder, such as "acme/billing".

        Raises LocalError if the folder has no skills, or an invalid one (see `entry.SkillEntry`).
        """
        self._directory = SafeDirectory(folder)
        self._cache: dict[PathParts, _CachedSkill] = {}
        prefix = [quote(part, safe="") for part in under.split("/") if part]
        if self._is_skill(()):
            prefix.append(quote(self._directory.path.name, safe=""))
        self._prefix = _SCHEME + "/".join(prefix)
        try:
            entries = [self._build_entry(parts) for parts in self._skills()]
        except (OSError, ValueError) as error:
            raise LocalError(f"the skills in {self._directory.path} cannot be served: {error}") from error
        if not entries:
            raise LocalError(f"there is no {SKILL_FILE} in {self._directory.path}")

    def uris(self) -> list[str]:
        """Return the URIs of the skills in the order of their paths; an empty list if the folder cannot be read."""
        try:
            return [self._uri((*parts, SKILL_FILE)) for parts in self._skills()]
        except (OSError, UnservableFileError) as error:
            _log.warning("the skills in %s are not listed: %s", self._directory.path, error)
            return []

    def entry(self, uri: str) -> dict[str, Any] | None:
        """Return the current entry of the skill at a URI, None if there is no valid skill."""
        parts = self._parts(uri)
        if not parts or parts[-1] != SKILL_FILE or not self._is_skill(parts[:-1]):
            return None
        try:
            return self._build_entry(parts[:-1])
        except (OSError, ValueError) as error:
            _log.warning("the skill %s is not served: %s", uri, error)
            return None

    def resource(self, uri: str) -> dict[str, Any] | None:
        """Return the skill at a URI as an item of the resources list, None if there is no valid skill."""
        entry = self.entry(uri)
        return None if entry is None else self._resource(self._parts(uri) or (), self._skill_file(entry)["size"])

    def content(self, uri: str) -> SkillContent | None:
        """Return the content of the file at a URI, None if no skill has this file."""
        parts = self._parts(uri)
        if not parts or not self._is_inside(parts[:-1]):
            return None
        try:
            data, _ = self._directory.read(parts, MAX_BYTES)
        except (OSError, UnservableFileError):
            return None
        mime_type = _mime_type(parts[-1])
        try:
            return SkillContent(data, mime_type or "text/plain", data.decode("utf-8"))
        except UnicodeDecodeError:
            return SkillContent(data, mime_type or "application/octet-stream", None)

    def children(self, uri: str) -> list[dict[str, Any]] | None:
        """Return the files and directories in the directory at a URI, None if no skill has this directory."""
        parts = self._parts(uri)
        if parts is None or not self._is_inside(parts):
            return None
        try:
            files, folders = self._directory.names(parts)
        except (OSError, UnservableFileError):
            return None
        resources = {name: self._resource((*parts, name), state[2]) for name, state in files.items()}
        resources |= {
            name_: {"uri": self._uri((*parts, name_)), "name": name_, "mimeType": DIRECTORY_MIME_TYPE}
            for name_ in folders
        }
        return [resources[name] for name in sorted(resources)]

    # ---- below the folder -------------------------------------------------------------------------------------------

    def _skills(self, parts: PathParts = ()) -> Iterator[PathParts]:
        files, folders = self._directory.names(parts)
        if SKILL_FILE in files:
            yield parts
        for name in folders:
            yield from self._skills((*parts, name))

    def _is_skill(self, parts: PathParts) -> bool:
        try:
            return SKILL_FILE in self._directory.names(parts)[0]
        except (OSError, UnservableFileError):
            return False

    def _is_inside(self, parts: PathParts) -> bool:
        """Return True if a directory is a skill, or is inside one."""
        return any(self._is_skill(parts[:count]) for count in range(len(parts) + 1))

    def _build_entry(self, parts: PathParts) -> dict[str, Any]:
        """Return the entry of the skill in a directory. Raises ValueError with the rule that it breaks."""
        resources: list[dict[str, Any]] = []
        size = 0
        uri = self._uri((*parts, SKILL_FILE))
        for path, state in self._directory.files(parts):
            size += state[2]
            if len(resources) == MAX_FILES or size > MAX_BYTES:
                raise ValueError(f"the skill {uri!r} has more than {MAX_FILES} files or {MAX_BYTES} bytes")
            cached = self._inspect(path, state)
            resources.append({"uri": self._uri(path), "digest": cached.digest, "size": cached.state[2]})
        entry = {"uri": uri, "frontmatter": self._cache[*parts, SKILL_FILE].frontmatter, "resources": resources}
        try:
            SkillEntry.parse(entry)
        except ValueError as error:
            raise ValueError(f"the skill {uri!r} {error}") from None
        return entry

    def _inspect(self, path: PathParts, state: FileState) -> _CachedSkill:
        """Return the digest and front matter of a file; read the file if its state differs from the cached one."""
        cached = self._cache.get(path)
        if cached is None or cached.state != state:
            data, actual = self._directory.read(path, MAX_BYTES)
            actual = (*actual[:2], len(data), actual[3])
            try:
                frontmatter = parse_front_matter(data) if path[-1] == SKILL_FILE else None
                if frontmatter is not None:
                    data.decode("utf-8")
            except UnicodeDecodeError:
                raise ValueError(f"{'/'.join(path)} is not UTF-8") from None
            except ValueError as error:
                raise ValueError(f"{'/'.join(path)} {error}") from None
            cached = self._cache[path] = _CachedSkill(actual, sha256_digest(data), frontmatter)
        return cached

    def _resource(self, parts: PathParts, size: int) -> dict[str, Any]:
        """Return a file as an item of the resources list; a SKILL.md has the name and description of its front
        matter."""
        mime_type = _mime_type(parts[-1])
        resource = {"uri": self._uri(parts), "name": parts[-1], "size": size} | (
            {"mimeType": mime_type} if mime_type else {}
        )
        cached = self._cache.get(parts)
        frontmatter = cached.frontmatter if cached is not None else None
        return (
            resource
            if frontmatter is None
            else {**resource, "name": frontmatter["name"], "description": frontmatter["description"]}
        )

    @staticmethod
    def _skill_file(entry: dict[str, Any]) -> dict[str, Any]:
        resource: dict[str, Any] = next(item for item in entry["resources"] if item["uri"] == entry["uri"])
        return resource

    # ---- names ------------------------------------------------------------------------------------------------------

    def _uri(self, parts: PathParts) -> str:
        path = "/".join(quote(part, safe="") for part in parts)
        return self._prefix + ("/" if path and self._prefix != _SCHEME else "") + path

    def _parts(self, uri: str) -> PathParts | None:
        """Return the path of a URI, None unless it is a spelling of a URI that this folder publishes (no traversal)."""
        uri = tidy_uri(uri.partition("#")[0])
        if uri == self._prefix:
            return ()
        start = self._prefix if self._prefix == _SCHEME else f"{self._prefix}/"
        if not uri.startswith(start):
            return None
        parts = tuple(unquote(segment) for segment in uri.removeprefix(start).split("/"))
        if any(part.startswith(".") or {"/", "\0"} & {*part} for part in parts) or tidy_uri(self._uri(parts)) != uri:
            return None
        return parts


def _mime_type(name: str) -> str | None:
    """Return the MIME type of a file name, None if it is unknown."""
    if name.endswith(".md"):
        return "text/markdown"
    mime_type, encoding = _MIME_TYPES.guess_type(name)
    return None if encoding is not None else mime_type
