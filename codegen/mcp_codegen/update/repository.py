"""The official files of a commit, read with git from a checkout, a bare repository or a URL. Nothing is checked out."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import CodegenError
from ..importer.importer import SOURCE
from ..output import without_secrets

_FILES: Final = ("schema.ts", "schema.json")
_URL: Final = re.compile(r"(https|ssh|file)://[^\s]+|[\w.-]+@[\w.-]+:[^\s]+")
_REF: Final = re.compile(r"[^\s-][^\s:^~?*\[\\]*")
_MAX_BYTES: Final = 16 << 20  # The official files have less than one MiB.
_SECONDS: Final = 600.0  # A fetch over a slow network.
# What a hook, or a shell, sets for another repository.
_OF_OTHERS: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The official files of one commit: `folder` has a folder for each of the revisions."""

    source: str
    ref: str
    commit: str
    day: str
    folder: Path
    revisions: tuple[str, ...]


def read_snapshot(source: str, ref: str, folder: Path) -> Snapshot:
    """Write the official files of a tag, branch or commit into a folder. Raises CodegenError.

    `source` is a checkout, a bare repository, or a URL, of which only this commit is fetched.
    """
    if _REF.fullmatch(ref) is None or ".." in ref:
        raise CodegenError(f"--ref {ref!r} is not a name of a tag, a branch or a commit; pass one, such as --ref main")
    git = _local(source) if Path(source).is_dir() else _fetched(source, ref, folder / "git")
    name_of_commit = ref if Path(source).is_dir() else "FETCH_HEAD"
    commit = git.line("rev-parse", "--verify", "--quiet", f"{name_of_commit}^{{commit}}") or git.line(
        "rev-parse", "--verify", "--quiet", f"refs/remotes/origin/{name_of_commit}^{{commit}}"
    )
    if not commit:
        raise CodegenError(f"{without_secrets(source)}: has no tag, branch or commit {ref!r}; `git fetch` it first")
    listed = git.run("ls-tree", "-r", "-z", "--name-only", commit, "schema/").decode(errors="replace").split("\0")
    revisions = sorted({path.split("/")[1] for path in listed if re.fullmatch(r"schema/[^/]+/schema\.ts", path)})
    revisions = [name for name in revisions if f"schema/{name}/schema.json" in listed]
    if not revisions:
        raise CodegenError(
            f"{without_secrets(source)}: {commit[:12]} has no schema/REVISION/schema.ts with a schema.json beside it; "
            "pass a commit of the specification's repository with --ref"
        )
    for revision in revisions:
        for name in _FILES:
            file = folder / "schema" / revision / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(git.blob(f"{commit}:schema/{revision}/{name}"))
    day = git.line("show", "--no-patch", "--format=%cs", commit)
    shown = SOURCE if Path(source).is_dir() else without_secrets(source)
    return Snapshot(shown, ref, commit, day, folder / "schema", tuple(revisions))


def _local(source: str) -> _Git:
    git = _Git(Path(source))
    if not git.line("rev-parse", "--git-dir"):
        raise CodegenError(f"{source}: is not a git repository; pass --from a checkout, a bare one or a URL")
    return git


def _fetched(source: str, ref: str, folder: Path) -> _Git:
    """Return a repository with one commit of a URL, without the files that nobody reads."""
    if _URL.fullmatch(source) is None:
        raise CodegenError(
            f"{without_secrets(source)}: is neither a folder nor a URL that begins with https://, ssh:// or file://; "
            "pass a checkout of the specification's repository, or its URL"
        )
    folder.mkdir(parents=True)
    git = _Git(folder)
    git.run("init", "--quiet", "--bare")
    git.run("remote", "add", "origin", "--", source)
    git.run("config", "remote.origin.promisor", "true")
    git.run("config", "remote.origin.partialclonefilter", "blob:none")
    git.run("fetch", "--quiet", "--depth", "1", "--no-tags", "--filter=blob:none", "origin", ref)
    return git


class _Git:
    """One repository, and the commands that read it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        others = {name: value for name, value in os.environ.items() if name not in _OF_OTHERS}
        # No question is put to a terminal, and no helper program speaks a protocol of its own.
        self._environment = others | {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:ssh:file", "LC_ALL": "C"}

    def run(self, *arguments: str) -> bytes:
        """Return the output of a command. Raises CodegenError with what git printed."""
        done = self._run(arguments)
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
            raise CodegenError(f"git {arguments[0]}: {without_secrets(lines[-1])}; check --from and --ref")
        return done.stdout

    def line(self, *arguments: str) -> str:
        """Return the output of a command as one line; an empty one if it fails."""
        done = self._run(arguments)
        return "" if done.returncode else done.stdout.decode(errors="replace").strip()

    def blob(self, name: str) -> bytes:
        """Return the bytes of a file. Raises CodegenError for one that is too long."""
        if int(self.run("cat-file", "-s", name)) > _MAX_BYTES:
            raise CodegenError(f"{name}: has more than {_MAX_BYTES} bytes; pass a commit with the official files")
        return self.run("cat-file", "blob", name)

    def _run(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
        command = ["git", "-C", str(self._folder), *arguments]
        try:
            return subprocess.run(
                command, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise CodegenError(f"git {arguments[0]}: did not end in {_SECONDS:.0f} s; pass a checkout") from error
        except OSError as error:
            raise CodegenError(f"git: cannot be started: {error.strerror}; install git") from error
