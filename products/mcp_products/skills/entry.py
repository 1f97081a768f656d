"""Entries of the skills list: parse them, and verify files against them (SEP-2640)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.protocol.uris import has_separator, has_traversal

from .frontmatter import parse_front_matter

SKILL_FILE: Final = "SKILL.md"
MAX_FILES: Final = 512
MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_DESCRIPTION_LENGTH: Final = 1024  # Characters (Agent Skills specification).

_NAME: Final = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_ROOT: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#\\\s]+/)*([^/?#\\\s]+)")
_SEGMENT: Final = re.compile(r"[^/?#\\\s\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class SkillFile:
    """One file of a skill's entry; `size` is in bytes."""

    uri: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """The published entry of a skill; `files` by URI, or None for a dynamic skill, which does not list its files."""

    uri: str
    frontmatter: Mapping[str, Any]
    files: Mapping[str, SkillFile] | None

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> Self:
        """Parse an entry. Raises ValueError with the rule that it breaks."""
        uri, frontmatter, resources = entry.get("uri"), entry.get("frontmatter"), entry.get("resources")
        if not isinstance(uri, str) or not is_object(frontmatter):
            raise ValueError("has no uri or no frontmatter")
        files = _parse_files(uri, resources)
        parsed = cls(uri, frontmatter, files)
        parsed._check_name()
        return parsed

    @property
    def root(self) -> str:
        """The URI of the skill's directory."""
        return self.uri.removesuffix(f"/{SKILL_FILE}")

    def _check_name(self) -> None:
        """Raise ValueError unless the skill has the name of its directory (SEP-2640, Resource Mapping)."""
        name, description = self.frontmatter.get("name"), self.frontmatter.get("description")
        match = _ROOT.fullmatch(self.root)
        if (
            match is None
            or not self.uri.endswith(f"/{SKILL_FILE}")
            or not _is_relative_path(self.uri.partition("://")[2])
        ):
            raise ValueError(f"has a uri that is not the URI of a {SKILL_FILE} in a directory")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"has the name {name!r}: a name needs 1 to 64 of a-z, 0-9, and single hyphens inside")
        if match[1] != name:
            raise ValueError(f"has the name {name!r}, but its directory is {match[1]!r}")
        if not isinstance(description, str) or not 0 < len(description) <= _MAX_DESCRIPTION_LENGTH:
            raise ValueError(f"needs a description of 1 to {_MAX_DESCRIPTION_LENGTH} characters")

    def has(self, uri: str) -> bool:
        """Return True if the entry lists a file at this URI; for a dynamic skill, if the URI is in its directory."""
        if self.files is not None:
            return uri in self.files
        root = f"{self.root}/"
        return uri.startswith(root) and _is_relative_path(uri.removeprefix(root))

    def check(self, uri: str, data: bytes) -> None:
        """Raise ValueError unless the bytes of a file match the entry, and the front matter of SKILL.md too.

        See SEP-2640, Integrity and verification.
        """
        if not self.has(uri):
            raise ValueError("is not among the files of the skill")
        if self.files is not None:
            file = self.files[uri]
            if len(data) != file.size:
                raise ValueError(f"has {len(data)} bytes, but the entry has {file.size}")
            if (digest := sha256_digest(data)) != file.digest:
                raise ValueError(f"has the digest {digest}, but the entry has {file.digest}")
        if uri == self.uri:
            parsed = parse_front_matter(data)
            different = [key for key in {**parsed, **self.frontmatter} if not _has_equal(parsed, self.frontmatter, key)]
            if different:
                raise ValueError(f"has other front matter than the entry: {', '.join(map(repr, different))}")


def sha256_digest(data: bytes) -> str:
    """Return the SHA-256 digest of a file, as an entry has it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _parse_files(uri: str, resources: Any) -> dict[str, SkillFile] | None:
    """Parse the files of an entry, None for a dynamic skill. Raises ValueError for invalid files and exceeded
    limits."""
    if resources == "dynamic":
        return None
    if not is_list(resources) or not all(is_object(resource) for resource in resources):
        raise ValueError('has resources that are neither a list of files nor "dynamic"')
    if len(resources) > MAX_FILES:
        raise ValueError(f"has {len(resources)} files, more than {MAX_FILES}")
    files: dict[str, SkillFile] = {}
    for resource in resources:
        file = _parse_file(uri.removesuffix(SKILL_FILE), resource)
        if file.uri in files:
            raise ValueError(f"lists {file.uri!r} twice")
        files[file.uri] = file
    if uri not in files:
        raise ValueError(f"does not list its own {SKILL_FILE}")
    if (total := sum(resource.size for resource in files.values())) > MAX_BYTES:
        raise ValueError(f"has {total} bytes, more than {MAX_BYTES}")
    return files


def _parse_file(root: str, value: Mapping[str, Any]) -> SkillFile:
    uri, digest, size = value.get("uri"), value.get("digest"), value.get("size")
    if not isinstance(uri, str) or not uri.startswith(root) or not _is_relative_path(uri.removeprefix(root)):
        raise ValueError(f"lists {uri!r}, which is not in its directory")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"has an invalid digest for {uri!r}: it must be sha256: and 64 lower-case hexadecimal digits")
    if type(size) is not int or size < 0:
        raise ValueError(f"has an invalid size for {uri!r}: it must be a number of bytes")
    return SkillFile(uri, digest, size)


def _is_relative_path(path: str) -> bool:
    """Return True if a relative path stays in its directory, also if it is decoded more than once."""
    return not has_traversal(path) and all(
        _SEGMENT.fullmatch(segment) and not has_separator(segment) for segment in path.split("/")
    )


def _has_equal(first: Mapping[str, Any], second: Mapping[str, Any], key: str) -> bool:
    return key in first and key in second and _equal(first[key], second[key])


def _equal(first: Any, second: Any) -> bool:
    """Return True if two JSON values are equal: 1 equals 1.0, but not true."""
    if is_object(first) and is_object(second):
        return first.keys() == second.keys() and all(_equal(first[key], second[key]) for key in first)
    if is_list(first) and is_list(second):
        return len(first) == len(second) and all(map(_equal, first, second))
    return isinstance(first, bool) is isinstance(second, bool) and bool(first == second)
