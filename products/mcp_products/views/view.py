"""The view of a tool: a resource with HTML, which the `_meta` of the tool names.

https://modelcontextprotocol.io/extensions/apps/overview
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from mcp_products.app.components.functions import code_of
from mcp_products.app.resources import FileResource, ResourceSource, TextResource
from mcp_products.app.settings import ResourceSettings, ToolSettings
from mcp_runtime.errors import LocalError

MIME_TYPE: Final = "text/html;profile=mcp-app"
_SHARED: Final = ("scopes", "tags", "version")  # Who may not use the tool, may not read its view.


class View:
    """The view of a tool that is added to an app; `settings` are those of the tool, which name it."""

    def __init__(self, app: Any, name: str, function: Callable[..., Any], settings: ToolSettings) -> None:
        """Read the keyword `view` of a tool.

        Args:
            app: The app of the tool.
            name: The name of the tool.
            function: Its function: the path of a file is relative to the file of this function.
            settings: The keywords of the tool.

        Raises LocalError if there is no such file, and if `meta` names a view as well.
        """
        meta: Mapping[str, Any] = settings.get("meta") or {}
        if "ui" in meta:
            raise LocalError(f"the tool {name!r}: view= and meta={{'ui': …}} both name a view: leave one of them out")
        self._app = app
        self._name = name
        self._uri = f"ui://{name}/view.html"
        self._content = _content_of(self._uri, name, function, settings.get("view"))
        self._shared = cast(ResourceSettings, {key: settings.get(key) for key in _SHARED if key in settings})
        self.settings = cast(ToolSettings, {**settings, "meta": {**meta, "ui": {"resourceUri": self._uri}}})

    def add(self) -> str:
        """Add the resource with the HTML, and return its URI. Raises LocalError if another one has it; then the tool is
        removed."""
        settings: ResourceSettings = {"name": f"{self._name}_view", "mime_type": MIME_TYPE, **self._shared}
        try:
            if isinstance(self._content, ResourceSource):
                self._app.add_resource(self._content, **settings)
            else:
                self._app.add_resource(self._uri, self._content, **settings)
        except LocalError:
            self._app.remove_tool(self._name, self.settings.get("version"))
            raise
        return self._uri


def _content_of(uri: str, name: str, function: Callable[..., Any], view: Any) -> ResourceSource | Callable[..., Any]:
    if callable(view):
        return cast("Callable[..., Any]", view)
    if str(view).lstrip().startswith("<"):
        return TextResource(uri=uri, mime_type=MIME_TYPE, text=str(view))
    return FileResource(uri=uri, mime_type=MIME_TYPE, path=_file_of(name, function, view))


def _file_of(name: str, function: Callable[..., Any], view: str | os.PathLike[str]) -> Path:
    """Return the file of a view, which is read at each request. Raises LocalError if there is none."""
    code = getattr(code_of(inspect.unwrap(function)), "__code__", None)
    program = Path(getattr(code, "co_filename", "the program"))
    path = (program.parent / view).resolve()
    if not path.is_file():
        raise LocalError(
            f"the tool {name!r}: view={str(view)!r}: there is no file {path}; write the path of a file, relative to "
            f"{program.name}, HTML that begins with '<', or a function that returns HTML"
        )
    return path
