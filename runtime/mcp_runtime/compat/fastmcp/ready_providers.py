"""Providers of FastMCP: of tools that several servers share, of another server, and of folders of skills."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Final

from ...app.providers.provider import Provider
from ...app.transforms.namespace import Namespace
from ...errors import LocalError
from ...usage.rules import shown

_log: Final = logging.getLogger(__name__)

_Folder = str | os.PathLike[str]
_OF_PROVIDER: Final = (
    *("tool", "resource", "prompt", "add_tool", "add_resource", "add_prompt"),
    *("remove_tool", "remove_resource", "remove_prompt", "get_tool", "get_resource", "enable", "disable"),
)


class FastMCPProvider(Provider):
    """A provider of all that another server has."""

    def __init__(self, server: Any) -> None:
        """Create a provider. Raises LocalError for something that is no server."""
        if not hasattr(server, "_registry"):
            raise LocalError(f"FastMCPProvider() needs a FastMCP object, not {shown(server)}")
        self.server = server
        self._prefix = ""

    def add_transform(self, transform: Any) -> None:
        """Add a `Namespace`. Raises LocalError for other transforms, which an app has."""
        if not isinstance(transform, Namespace):
            raise LocalError(
                f"add_transform(): a provider takes only Namespace(…), not {shown(transform)}: add it to the server"
            )
        self._prefix = f"{transform.prefix}_{self._prefix}" if self._prefix else transform.prefix

    def attach(self, app: Any, prefix: str) -> None:
        """Mount the server in an app."""
        app.mount(self.server, "_".join(part for part in (prefix, self._prefix) if part))


class LocalProvider(FastMCPProvider):
    """Tools, resources and prompts that several servers share: `@provider.tool`, `FastMCP(providers=[provider])`.

    What a provider has disabled, a server cannot enable.
    """

    app_class: ClassVar[Any] = None

    def __init__(self) -> None:
        """Create an empty provider."""
        super().__init__(self.app_class("LocalProvider"))

    def __getattr__(self, name: str) -> Any:
        if name in _OF_PROVIDER:
            return getattr(self.server, name)
        raise AttributeError(f"LocalProvider has no {name!r}; it has {', '.join(_OF_PROVIDER)}")


class SkillsDirectoryProvider(Provider):
    """The skills in one folder or in several, the first of which takes precedence: `app.skills(folder)`."""

    def __init__(self, roots: _Folder | Iterable[_Folder], *, reload: bool = False) -> None:
        """Create a provider. Folders that do not exist are left out, and logged.

        Args:
            roots: The folders.
            reload: Has no effect: the files of skills are read at each request.
        """
        self._roots = [Path(roots)] if isinstance(roots, (str, os.PathLike)) else [Path(root) for root in roots]

    def attach(self, app: Any, prefix: str) -> None:
        """Publish the skills."""
        for root in self._roots:
            if root.is_dir():
                app.skills(root, under=prefix)
            else:
                _log.warning("%s: there is no folder %r", type(self).__name__, str(root))


class ClaudeSkillsProvider(SkillsDirectoryProvider):
    """The skills in `~/.claude/skills`."""

    def __init__(self, *, reload: bool = False) -> None:
        """Create a provider; `reload` has no effect."""
        super().__init__(Path.home() / ".claude" / "skills", reload=reload)
