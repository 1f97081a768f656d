"""The card of an app: its identity, its endpoint and its protocol versions.

https://modelcontextprotocol.io/seps/2127-mcp-server-cards
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from mcp_runtime.errors import LocalError
from mcp_runtime.usage.rules import shown

SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
CARD_TYPE: Final = "application/mcp-server-card+json"
CATALOG_TYPE: Final = "application/ai-catalog+json"
CARD_SUFFIX: Final = "/server-card"  # Below the endpoint; the extension reserves it.
CATALOG_PATH: Final = "/.well-known/ai-catalog.json"
_CATALOG_VERSION: Final = "1.0"
_NAME: Final = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_MAX_NAME: Final = 200
_MAX_TEXT: Final = 100  # Characters of a description, and of a title.
_MAX_VERSION: Final = 255
_HOSTS: Final = {"github.com": "github", "gitlab.com": "gitlab"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerCard:
    """What a card says besides what the running server says.

    Args:
        name: Its name in reverse DNS form, such as "com.example/weather". Default None: the host of the endpoint,
            reversed, and the name of the app.
        description: 1 to 100 characters. Default None: those of the app.
        url: The public URL of the endpoint. Default None: the one that the card was requested from.
        repository: The URL of the source on GitHub or GitLab. Default None: the card names none.

    Raises LocalError for a value that a card cannot have.
    """

    name: str | None = None
    description: str | None = None
    url: str | None = None
    repository: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None and (not _NAME.fullmatch(self.name) or len(self.name) > _MAX_NAME):
            raise LocalError(
                f'ServerCard(): name={shown(self.name)} must be reverse DNS with one slash: "com.example/weather"'
            )
        if self.description is not None:
            _check_text("description", self.description)
        if self.url is not None and urlsplit(self.url).scheme not in ("http", "https"):
            raise LocalError(f'ServerCard(): url={shown(self.url)} must be a URL, such as "https://example.com/mcp"')
        if self.repository is not None and urlsplit(self.repository).hostname not in _HOSTS:
            hosts = " or ".join(_HOSTS)
            raise LocalError(f"ServerCard(): repository={shown(self.repository)} is not a URL of {hosts}; leave it out")


def _check_text(name: str, text: str) -> None:
    if not 1 <= len(text) <= _MAX_TEXT:
        raise LocalError(
            f"card=: the {name} has {len(text)} characters, and a card takes 1 to {_MAX_TEXT}: "
            f"pass card=ServerCard({name}=…)"
        )


def document_of(info: Mapping[str, Any], card: ServerCard, url: str, revisions: Sequence[str]) -> dict[str, Any]:
    """Return the card of a server as JSON.

    Args:
        info: The `serverInfo` of the server.
        card: What the card says besides.
        url: The URL of the endpoint.
        revisions: The ids of the protocol versions that are served, oldest first.

    Raises LocalError for a name, a version or a description that a card cannot have.
    """
    name, title = str(info["name"]), info.get("title")
    description = card.description or info.get("description") or title or f"The MCP server {name}."
    _check_text("description", description)
    version = str(info.get("version") or "")
    if not 1 <= len(version) <= _MAX_VERSION:
        raise LocalError(f'card=: the version {shown(version)} is none; write App({name!r}, version="1.0.0")')
    document: dict[str, Any] = {
        "$schema": SCHEMA,
        "name": card.name or qualified_name(name, urlsplit(url).hostname or ""),
        "version": version,
        "description": description,
    }
    document |= {"title": title} if title and len(title) <= _MAX_TEXT else {}
    for key in ("websiteUrl", "icons"):
        if info.get(key):
            document[key] = info[key]
    if card.repository is not None:
        source = _HOSTS[urlsplit(card.repository).hostname or ""]
        document["repository"] = {"url": card.repository, "source": source}
    remote = {"type": "streamable-http", "url": url, "supportedProtocolVersions": [*revisions]}
    return document | {"remotes": [remote]}


def qualified_name(name: str, host: str) -> str:
    """Return a name in reverse DNS form: that of a server if it has this form, else the reversed host before it.

    Raises LocalError for a name that no such name can end with.
    """
    if _NAME.fullmatch(name) and len(name) <= _MAX_NAME:
        return name
    is_name = host and not host.replace(".", "").isdigit() and ":" not in host
    namespace = ".".join(reversed(host.split("."))) if is_name else "localhost"  # An address has no reverse DNS form.
    qualified = f"{namespace}/{name}"
    if not _NAME.fullmatch(qualified) or len(qualified) > _MAX_NAME:
        raise LocalError(
            f"card=: the name {shown(name)} has other characters than letters, digits, . _ and -: "
            'pass card=ServerCard(name="com.example/weather")'
        )
    return qualified


def catalog_of(name: str, url: str) -> dict[str, Any]:
    """Return the catalog of a host with one server, whose card is at a URL."""
    domain, _, server = name.partition("/")
    publisher = ".".join(reversed(domain.split(".")))
    entry = {"identifier": f"urn:air:{publisher}:mcp:{server}", "type": CARD_TYPE, "url": url}
    return {"specVersion": _CATALOG_VERSION, "entries": [entry]}
