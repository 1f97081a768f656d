"""What a host reads of a server: its lists as they came over the wire, and how its process behaved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_runtime.protocol.models import is_list as is_list
from mcp_runtime.protocol.models import is_object as is_object

Json = dict[str, Any]


def text_of(value: object) -> str:
    """Return a text; an empty one for something else."""
    return value if isinstance(value, str) else ""


@dataclass(slots=True)
class Snapshot:
    """One server. Nothing in it is checked: what is wrong is what the rules are for.

    `name` is the name of its entry in hosts; `named` is True if the user has said it. Empty `lists` of a server that
    was not started are not a finding.
    """

    name: str = "server"
    named: bool = False
    info: Json = field(default_factory=dict[str, Any])
    revision: str = ""
    capabilities: Json = field(default_factory=dict[str, Any])
    instructions: str = ""
    tools: Sequence[Json] = ()
    resources: Sequence[Json] = ()
    templates: Sequence[Json] = ()
    prompts: Sequence[Json] = ()
    failed: Mapping[str, str] = field(default_factory=dict[str, str])  # The list, and the error.
    # How the process behaved.
    broken: str = ""  # Why it does not start, or does not answer.
    noise: Sequence[str] = ()
    start: float | None = None  # Seconds to the answer of `initialize`.
    ended: bool | None = None  # False if it remained when its input was closed.
    calls: Mapping[str, Json] = field(default_factory=dict[str, Any])  # Results of calls, by tool.
    refused_redirects: Sequence[str] = ()
    # What stands around it.
    url: str = ""
    command: Sequence[str] = ()
    entry: Json | None = None  # Its entry in a configuration.
    configuration: Path | None = None
    servers_key: str = ""  # The key that the entry stands below.
    registry: Json | None = None  # server.json
    readme: str | None = None
    requirements: Mapping[str, str] = field(default_factory=dict[str, str])  # The requirement, and its file.
    lock: Mapping[str, str] | None = None  # The digest of each definition, by its place.

    def items(self) -> Iterator[tuple[str, Json]]:
        """Yield each tool, resource, template and prompt with its place."""
        for kind in ("tools", "resources", "templates", "prompts"):
            for number, item in enumerate(getattr(self, kind)):
                key = "uri" if kind == "resources" else "uriTemplate" if kind == "templates" else "name"
                yield f"{kind}.{text_of(item.get(key)) or number}", item
