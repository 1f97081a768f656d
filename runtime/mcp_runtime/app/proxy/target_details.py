"""What a proxy shows of its target: its instructions, its title, description, icons and website, and capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...bindings.client import BaseClient
from ...bindings.server import BaseServer, Servable
from ...protocol.capabilities import merge
from ...protocol.models import is_object

_NAMES: Final = {"title": "title", "description": "description", "icons": "icons", "websiteUrl": "website_url"}
# Capabilities that clients and tools use without messages of their own, so that a proxy serves them.
_SHOWN_CAPABILITIES: Final = ("experimental", "extensions")
_WITH_MESSAGES: Final = ("/tasks", "/skills")  # Extensions whose methods a proxy does not have.


def show_target(app: Any, target: Any) -> None:
    """Let a new proxy show what can be known before it connects: of an App, a Server or a connected Client."""
    if isinstance(target, BaseClient):
        if target._session is not None:  # pyright: ignore[reportPrivateUsage]
            show_details(app, target.server, with_capabilities=True)
    elif isinstance(target, BaseServer):
        _show(app, target.info, target.instructions)
        _show_capabilities(app, target.capabilities)
    elif isinstance(target, Servable):  # An app, whose server is created when it is first needed.
        info = {name: getattr(target, attribute, None) for name, attribute in _NAMES.items()}
        _show(app, info, getattr(target, "instructions", None))
        _show_capabilities(app, getattr(target, "_capabilities", None) or {})


def show_details(app: Any, details: Any, with_capabilities: bool = False) -> None:
    """Let a proxy show what its target has sent: the ServerDetails of a client that has connected to it.

    Capabilities are those of the time when the server of the app is created; its clients connect later.
    """
    fields: dict[str, Any] = details.model_dump()
    _show(app, details._implementation(), fields.get("instructions"))
    if with_capabilities:
        _show_capabilities(app, fields.get("capabilities") or {})


def _show(app: Any, info: Mapping[str, Any], instructions: str | None) -> None:
    """Set what the author of the proxy has not set."""
    members: dict[str, Any] = app.__dict__
    server: BaseServer | None = members.get("server")
    if app.instructions is None and instructions:
        app.instructions = instructions
        if server is not None:
            server.instructions = instructions
    for name, attribute in _NAMES.items():
        if getattr(app, attribute) is None and info.get(name):
            setattr(app, attribute, info[name])
            if server is not None:
                server.info[name] = info[name]


def _show_capabilities(app: Any, capabilities: Mapping[str, Any]) -> None:
    shown: dict[str, Any] = {}
    for kind in _SHOWN_CAPABILITIES:
        declared = capabilities.get(kind)
        if is_object(declared):
            names = {str(name): value for name, value in declared.items() if not str(name).endswith(_WITH_MESSAGES)}
            shown |= {kind: names} if names else {}
    if shown:
        merge(shown, app._capabilities or {})
        app._capabilities = shown
