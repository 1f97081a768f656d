"""The lock of a gateway: definitions as a person has approved them, so that a change does not reach a model."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ..errors import LocalError
from ..protocol.models import is_object
from ..stores.private_files import replace_private_file
from ..usage.shortened import quoted, shortened

_log: Final = logging.getLogger("mcp_runtime.gateway")

_MAX_ALARMS: Final = 1000

ID_FIELDS: Final = {"tools": "name", "prompts": "name", "resources": "uri", "resource_templates": "uri_template"}
"""What identifies a definition, by its kind."""
_NOUNS: Final = {kind: kind.removesuffix("s").replace("_", " ") for kind in ID_FIELDS}

Digests = Mapping[str, Mapping[str, str]]  # By kind and id.


class DefinitionLock:
    """The digests of the tools, prompts, resources and templates of servers. Others are refused."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises LocalError if there is none, or if it is damaged."""
        try:
            content = json.loads(path.read_bytes())
        except OSError as error:
            raise LocalError(
                f"the lock {path} cannot be read: {error.strerror}; write it with mcp-codegen gateway FILE --lock"
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
