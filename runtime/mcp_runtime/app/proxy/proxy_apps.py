"""Add the target of a proxy to its app."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...errors import LocalError
from ...session.interfaces import RevisionChoice
from .proxy_provider import ProxyProvider
from .target_details import show_details, show_target
from .targets import ClientFactory, entries_of, prefix_of


def add_target(app: Any, target: Any, revisions: RevisionChoice, settings: Mapping[str, Any]) -> None:
    """Add a target to a new app; several servers of a configuration become mounted proxies.

    Args:
        app: The app.
        target: What `App.proxy` takes.
        revisions: The protocol versions that may be negotiated with the target.
        settings: The keywords of `Client.http` or `Client.stdio`.

    Raises LocalError for a wrong target.
    """
    entries = entries_of(target)
    if entries is not None and settings:
        raise LocalError(f"proxy() with a configuration takes no {next(iter(settings))!r}: write it into the entry")
    if entries is not None and len(entries) > 1:
        names: dict[str, str] = {}
        for name, entry in entries.items():
            prefix = prefix_of(name)
            if names.setdefault(prefix, name) != name:
                raise LocalError(f"proxy(): {name!r} and {names[prefix]!r} get the same prefix {prefix!r}: rename one")
            inner = type(app)(name)
            _add_provider(inner, name, entry, revisions, {})
            app._mount(inner, prefix)
        return
    name, entry = (app.name, target) if entries is None else next(iter(entries.items()))
    _add_provider(app, name, entry, revisions, settings)
    show_target(app, entry)


def _add_provider(app: Any, name: str, target: Any, revisions: RevisionChoice, settings: Mapping[str, Any]) -> None:
    try:
        factory = ClientFactory(app.client_class(), target, revisions, settings)
    except (LocalError, TypeError) as error:
        raise type(error)(str(error).replace("connect()", "proxy()")) from None
    factory.on_connected = partial(show_details, app)
    app.add_provider(ProxyProvider(name, factory, app.server_class.revision))
