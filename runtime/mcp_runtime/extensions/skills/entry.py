"""An entry of a list of skills goes in, with its rules: what it has to be, and what a file that it names has to be."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import unquote

from ...protocol.models import is_list, is_object
from .frontmatter import parse_front_matter

SKILL: Final = "SKILL.md"
MAX_FILES: Final = 512
MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_WORDS: Final = 1024  # Characters of a description (Agent Skills, description).

_NAME: Final = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_ROOT: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#\\\s]+/)*([^/?#\\\s]+)")
_SEGMENT: Final = re.compile(r"[^/?#\\\s\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class SkillFile:
    """One file of a skill, as the entry has it; `size` is in bytes."""

    uri: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """A skill as a server published it; `files` by URI, or None where they are not known beforehand (`dynamic`)."""

    uri: str
    frontmatter: Mapping[str, Any]
    files: Mapping[str, SkillFile] | None

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> Self:
        """The entry that this JSON is. Raises ValueError for one that breaks a rule; each rule has words of its own."""
        uri, frontmatter, resources = entry.get("uri"), entry.get("frontmatter"), entry.get("resources")
        if not isinstance(uri, str) or not is_object(frontmatter):
            raise ValueError("has no uri, or no frontmatter")
        files = _files(uri, resources)
        parsed = cls(uri, frontmatter, files)
        parsed._check_name()
        return parsed

    @property
    def root(self) -> str:
        """The URI of the skill's directory."""
        return self.uri.removesuffix(f"/{SKILL}")

    def _check_name(self) -> None:
        """Raise ValueError where the skill is not called what its directory is (SEP-2640, Resource Mapping)."""
        name, description = self.frontmatter.get("name"), self.frontmatter.get("description")
        found = _ROOT.fullmatch(self.root)
        if found is None or not self.uri.endswith(f"/{SKILL}") or not _is_relative_path(self.uri.partition("://")[2]):
            raise ValueError(f"has a uri that is not that of a {SKILL} in a directory")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"is called {name!r}: a name is 1 to 64 of a-z, 0-9 and single hyphens inside")
        if found[1] != name:
            raise ValueError(f"is called {name!r}, its directory {found[1]!r}")
        if not isinstance(description, str) or not 0 < len(description) <= _MAX_WORDS:
            raise ValueError(f"has no description of 1 to {_MAX_WORDS} characters")

    def has(self, uri: str) -> bool:
        """Whether a file at this URI may be one of the skill's; where they are known beforehand, whether it is."""
        if self.files is not None:
            return uri in self.files
        root = f"{self.root}/"
        return uri.startswith(root) and _is_relative_path(uri.removeprefix(root))

    def check(self, uri: str, data: bytes) -> None:
        """Raise ValueError where these are not the bytes that the entry promises at this URI, or, for the SKILL.md, not
        its front matter (SEP-2640, Integrity and verification)."""
        if not self.has(uri):
            raise ValueError("is not among the files of the skill")
        if self.files is not None:
            file = self.files[uri]
            if len(data) != file.size:
                raise ValueError(f"has {len(data)} bytes, the entry says {file.size}")
            if (digest := sha256_digest(data)) != file.digest:
                raise ValueError(f"has the digest {digest}, the entry says {file.digest}")
        if uri == self.uri:
            found = parse_front_matter(data)
            different = [key for key in {**found, **self.frontmatter} if not _find(found, self.frontmatter, key)]
            if different:
                raise ValueError(f"has other front matter than the entry says: {', '.join(map(repr, different))}")


def sha256_digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _files(uri: str, resources: Any) -> dict[str, SkillFile] | None:
    """The files of an entry; what it says of them is all there is to count. Raises ValueError."""
    if resources == "dynamic":
        return None
    if not is_list(resources) or not all(is_object(each) for each in resources):
        raise ValueError("lists no files, nor says that they are dynamic")
    if len(resources) > MAX_FILES:
        raise ValueError(f"has {len(resources)} files, more than {MAX_FILES}")
    files: dict[str, SkillFile] = {}
    for each in resources:
        file = _file(uri.removesuffix(SKILL), each)
        if file.uri in files:
            raise ValueError(f"lists {file.uri!r} twice")
        files[file.uri] = file
    if uri not in files:
        raise ValueError(f"does not list its own {SKILL}")
    if (total := sum(each.size for each in files.values())) > MAX_BYTES:
        raise ValueError(f"has {total} bytes, more than {MAX_BYTES}")
    return files


def _file(root: str, value: Mapping[str, Any]) -> SkillFile:
    uri, digest, size = value.get("uri"), value.get("digest"), value.get("size")
    if not isinstance(uri, str) or not uri.startswith(root) or not _is_relative_path(uri.removeprefix(root)):
        raise ValueError(f"lists {uri!r}, which is not inside its directory")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"has for {uri!r} a digest that is not sha256: and 64 lower-case digits")
    if type(size) is not int or size < 0:
        raise ValueError(f"has for {uri!r} a size that is no number of bytes")
    return SkillFile(uri, digest, size)


def _is_relative_path(path: str) -> bool:
    """Whether a relative path stays below where it starts, whatever is decoded in it, and however often."""
    for segment in path.split("/"):
        plain = unquote(unquote(segment))
        if not _SEGMENT.fullmatch(segment) or plain in (".", "..") or set(plain) & {"/", "\\", "\0"}:
            return False
    return True


def _find(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> bool:
    return key in one and key in other and _equal(one[key], other[key])


def _equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same: 1 is 1.0 and not true."""
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if is_list(one) and is_list(other):
        return len(one) == len(other) and all(map(_equal, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)
