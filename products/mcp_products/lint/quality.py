"""What a model needs in order to choose a tool and to call it right."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .findings import Finding, Settings, found
from .snapshot import Snapshot, is_object, text_of


def check_parameters(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield arguments without a description."""
    for tool in snapshot.tools:
        schema = tool.get("inputSchema")
        properties = schema.get("properties") if is_object(schema) else None
        bare = [
            name
            for name, part in (properties.items() if is_object(properties) else ())
            if is_object(part) and not text_of(part.get("description")).strip() and "$ref" not in part
        ]
        if bare:
            count = len(bare)
            message = f"{count} argument{'' if count == 1 else 's'} without a description: {', '.join(bare[:5])}"
            yield found("parameter-description", f"tools.{text_of(tool.get('name'))}", message)


def check_similar(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield tools that have the same description."""
    seen: dict[str, str] = {}
    for tool in snapshot.tools:
        name, text = text_of(tool.get("name")), " ".join(text_of(tool.get("description")).lower().split())
        if text and text in seen:
            yield found("similar-tools", f"tools.{name}", f"{name} and {seen[text]} have one description")
        seen.setdefault(text, name)


def check_resources(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield resources and templates without an absolute URI, and two of one."""
    for kind, items, key in (
        ("resources", snapshot.resources, "uri"),
        ("templates", snapshot.templates, "uriTemplate"),
    ):
        seen: set[str] = set()
        for number, item in enumerate(items):
            uri = text_of(item.get(key))
            if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri):
                yield found("resource-uri", f"{kind}.{number}", f"{uri!r} has no scheme")
            elif uri in seen:
                yield found("resource-uri", f"{kind}.{uri}", "two of them have this URI")
            seen.add(uri)


def check_connector(snapshot: Snapshot, settings: Settings) -> Iterator[Finding]:
    """Yield the two tools that ChatGPT's connectors need, for a server over HTTP or when the host is chosen."""
    names = {text_of(tool.get("name")) for tool in snapshot.tools}
    missing = [name for name in ("search", "fetch") if name not in names]
    if missing and not snapshot.broken and (snapshot.url or "chatgpt-connector" in settings.hosts):
        yield found("connector-search-fetch", "tools", f"there is no tool {' and none called '.join(missing)}")
