"""The lock of a gateway: definitions as a person has approved them, so that a change does not reach a model."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO
from weakref import WeakKeyDictionary, WeakValueDictionary

from mcp_products.platforms.private_files import replace_private_file
from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_object
from mcp_runtime.server.context import ConnectionState
from mcp_runtime.usage.texts import quoted, shortened

_log: Final = logging.getLogger("mcp_runtime.gateway")

_MAX_ALARMS: Final = 1000

ID_FIELDS: Final = {"tools": "name", "prompts": "name", "resources": "uri", "resource_templates": "uri_template"}
"""What identifies a definition, by its kind."""
_NOUNS: Final = {kind: kind.removesuffix("s").replace("_", " ") for kind in ID_FIELDS}

Digests = Mapping[str, Mapping[str, str]]  # By kind and id.
_audit_log_log: Final = logging.getLogger("mcp_runtime.audit")
_APPENDING: Final = os.O_APPEND | os.O_CREAT | os.O_WRONLY
_MODE: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MAX_USER: Final = 1000  # Characters of what identifies a user.
_MAX_USERS: Final = 10_000  # Users whose lists are kept; those of the one that was silent longest are dropped.
_MAX_LISTS: Final = 100  # Lists of one session, which may have many tokens after another.
_Key = tuple[str, str]  # What the credentials of a request are known by, and the kind.


class DefinitionLock:
    """The digests of the tools, prompts, resources and templates of servers. Others are refused."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises LocalError if there is none, or if it is damaged."""
        try:
            content = json.loads(path.read_bytes())
        except OSError as error:
            raise LocalError(
                f"the lock {path} cannot be read: {error.strerror}; write it with mcp-generated gateway FILE --lock"
            ) from None
        except ValueError as error:
            raise LocalError(f"the lock {path} is not JSON: {error}; write it anew with --lock") from None
        if not is_object(content) or not all(map(_has_form, content.values())):
            raise LocalError(f"the lock {path} has another form; write it anew with --lock")
        self._digests: Mapping[str, Digests] = content
        self.alarms: dict[tuple[str, str, str], str] = {}
        """What differs, by server, kind and id, which is shortened if it is long; the last 1,000."""

    def accepted(self, upstream: str, kind: str, items: Sequence[Any]) -> list[Any]:
        """Return the definitions that are as they were when the lock was written; log the first alarm of others."""
        own = self._digests.get(upstream, {}).get(kind, {})
        accepted: list[Any] = []
        for item in items:
            id = getattr(item, ID_FIELDS[kind])
            place = (upstream, kind, shortened(id))
            if own.get(id) == digest(item):
                accepted.append(item)
                self.alarms.pop(place, None)
                continue
            reason = "has changed" if id in own else "is new"
            if self.alarms.get(place) != reason:
                named = quoted(id)
                _log.error(
                    "alarm: the %s %s of %r %s since the lock was written: refused",
                    _NOUNS[kind],
                    named,
                    upstream,
                    reason,
                )
            self.alarms[place] = reason
            if len(self.alarms) > _MAX_ALARMS:
                del self.alarms[next(iter(self.alarms))]
        return accepted


def _has_form(kinds: object) -> bool:
    return is_object(kinds) and all(kind in ID_FIELDS and is_object(ids) for kind, ids in kinds.items())


def digest(definition: Any) -> str:
    """Return the digest of all that a model sees of a definition."""
    fields = {key: value for key, value in definition.model_dump().items() if key != "_meta"}
    return "sha256:" + sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def write_lock(path: Path, servers: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
    """Write the lock of the definitions of servers, which are by kind. Raises LocalError if it cannot be written."""
    content = {
        name: {kind: {getattr(item, ID_FIELDS[kind]): digest(item) for item in items} for kind, items in kinds.items()}
        for name, kinds in servers.items()
    }
    try:
        replace_private_file(path, json.dumps(content, indent=2, sort_keys=True) + "\n")
    except OSError as error:
        raise LocalError(f"the lock {path} cannot be written: {error.strerror}") from None


# The audit log of a gateway: a line for each call, without arguments and results.


class AuditLog:
    """Writes calls to the logger `mcp_runtime.audit`, and as lines of JSON to a file.

    Names and users that are long are shortened, so that a line has a size whatever a client sends.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the file for appending; None writes to the logger only. Raises LocalError if it cannot be written.

        Only the user of this process can read a file that is created here. A file that exists keeps its mode, with a
        warning if others can read it.
        """
        self.path = path
        self._file: TextIO | None = None
        self._is_failing = False
        if path is not None:
            try:
                self._file = os.fdopen(os.open(path, _APPENDING, _MODE), "a", encoding="utf-8", newline="\n")
                _warn_about_readers(path, os.fstat(self._file.fileno()))
            except OSError as error:
                raise LocalError(f"the audit log {path} cannot be written: {error.strerror}") from None

    def write(self, *, seconds: float, name: str, user: str, **fields: Any) -> None:
        """Write a line: the server, what was called, the user, the outcome, and the seconds that it took.

        A file that cannot be written, as on a full disk, is an error in the log, once: what was called has run already.
        """
        fields = {**fields, "name": shortened(name), "user": shortened(user, _MAX_USER)}
        _audit_log_log.info("%s %r of %r: %s", fields["kind"], fields["name"], fields["upstream"], fields["outcome"])
        if self._file is not None:
            now = datetime.fromtimestamp(clocks.wall(), UTC)
            line = {"time": now.isoformat(), **fields, "seconds": round(seconds, 6)}
            try:
                print(json.dumps(line), file=self._file, flush=True)
            except OSError as error:
                if not self._is_failing:
                    text = "the audit log %s cannot be written: %s; calls go on, and only this logger has them"
                    _audit_log_log.error(text, self.path, error.strerror)
                self._is_failing = True
            else:
                self._is_failing = False

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _warn_about_readers(path: Path, status: os.stat_result) -> None:
    if os.name == "posix" and stat.S_ISREG(status.st_mode) and status.st_mode & _OTHERS:
        _audit_log_log.warning("others can read the audit log %s: run chmod 600 on it", path)


# What a server was seen to list, by the client that listed it: only such names are passed to the server.


class Listing(NamedTuple):
    """The ids of one kind that a server has listed, and when, by `clocks.monotonic`."""

    ids: frozenset[str]
    time: float


class Listings:
    """The last list of each kind for each session, and for each user without one. Equal ones are kept once."""

    def __init__(self) -> None:
        """Create listings; nothing was listed."""
        self._of_sessions: WeakKeyDictionary[ConnectionState, dict[_Key, Listing]] = WeakKeyDictionary()
        self._of_users: OrderedDict[str, dict[_Key, Listing]] = OrderedDict()
        self._same: WeakValueDictionary[int, frozenset[str]] = WeakValueDictionary()

    def get(self, ctx: Any, user: str, kind: str) -> Listing | None:
        """Return the last list of a kind for the client of a request; `user` is what its credentials are known by."""
        return self._lists(ctx, user).get((user, kind))

    def put(self, ctx: Any, user: str, kind: str, ids: frozenset[str]) -> Listing:
        """Keep a list."""
        same = self._same.get(hash(ids))
        if same is not None and same == ids:
            ids = same
        else:
            self._same[hash(ids)] = ids
        lists = self._lists(ctx, user)
        if len(lists) > _MAX_LISTS:
            lists.clear()
        listing = lists[user, kind] = Listing(ids, clocks.monotonic())
        return listing

    def _lists(self, ctx: Any, user: str) -> dict[_Key, Listing]:
        state: ConnectionState = ctx.connection_state
        if not state.is_shared:
            return self._of_sessions.setdefault(state, {})
        lists = self._of_users.setdefault(user, {})
        self._of_users.move_to_end(user)
        if len(self._of_users) > _MAX_USERS:
            self._of_users.popitem(last=False)
        return lists

    def all(self) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield all lists with their kinds."""
        for lists in (*self._of_sessions.values(), *self._of_users.values()):
            yield from ((kind, listing.ids) for (_, kind), listing in lists.items())

    def clear(self) -> None:
        """Forget all lists."""
        self._of_sessions.clear()
        self._of_users.clear()
