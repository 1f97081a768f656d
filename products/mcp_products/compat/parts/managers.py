"""The managers of tools, resources and prompts of the official SDK: tables of components outside of a server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar, Final

from mcp_runtime.errors import ToolError

from ..components import Prompt, Tool
from ..forms.errors import ResourceNotFoundError
from ..forms.form import FORM
from .resources import ResourceSecurityError, ResourceTemplate

_log: Final = logging.getLogger("mcp_runtime.compat.managers")


class Manager:
    """Components of one kind by their names: the first of a name stays."""

    kind: ClassVar[str]

    def __init__(self, *warns: bool, **settings: Any) -> None:
        """Create a manager; for tools: `warn_on_duplicate_tools`, whether the log tells of a name that is there
        already, and `tools`. Raises TypeError for another keyword."""
        self._items: dict[str, Any] = {}
        items = f"{self.kind.lower()}s"
        setattr(self, f"warn_on_duplicate_{items}", settings.pop(f"warn_on_duplicate_{items}", (*warns, True)[0]))
        for item in settings.pop(items, None) or ():
            self._add(item)
        if settings:
            raise TypeError(f"{type(self).__name__}() has no keyword argument {next(iter(settings))!r}")

    def _add(self, item: Any) -> Any:
        name = str(item.uri if self.kind == "Resource" else item.name)
        if name in self._items and getattr(self, f"warn_on_duplicate_{self.kind.lower()}s"):
            _log.warning("%s already exists: %s", self.kind, name)
        return self._items.setdefault(name, item)

    def _all(self) -> list[Any]:
        return list(self._items.values())


class ToolManager(Manager):
    """Tools by their names."""

    kind = "Tool"
    list_tools = Manager._all

    def get_tool(self, name: str) -> Tool | None:
        """Return a tool; None without one of this name."""
        return self._items.get(name)

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, **settings: Any) -> Tool:
        """Add a function as a tool, with the keywords of `Tool.from_function`, and return the tool of this name."""
        added: Tool = self._add(Tool.from_function(fn, name, **settings))
        return added

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Raises ToolError without one of this name."""
        if self._items.pop(name, None) is None:
            raise ToolError(f"Unknown tool: {name}")

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Any = None, convert_result: bool = False
    ) -> Any:
        """Call a tool. Raises ToolError without one of this name, and for one that fails."""
        if (tool := self.get_tool(name)) is None:
            raise ToolError(f"Unknown tool: {name}")
        return await tool.run(arguments, context, convert_result)


class PromptManager(Manager):
    """Prompts by their names."""

    kind = "Prompt"
    list_prompts = Manager._all
    add_prompt = Manager._add

    def get_prompt(self, name: str) -> Prompt | None:
        """Return a prompt; None without one of this name."""
        return self._items.get(name)

    async def render_prompt(self, name: str, arguments: dict[str, Any] | None = None, context: Any = None) -> Any:
        """Return the messages of a prompt. Raises ValueError without one of this name, and for one that fails."""
        if (prompt := self.get_prompt(name)) is None:
            raise ValueError(f"Unknown prompt: {name}")
        return await prompt.render(arguments, context)


class ResourceManager(Manager):
    """Resources by their URIs, and templates of others."""

    kind = "Resource"
    list_resources = Manager._all
    add_resource = Manager._add

    def __init__(self, *warns: bool, **settings: Any) -> None:
        """Create a manager of resources."""
        super().__init__(*warns, **settings)
        self._templates: dict[str, ResourceTemplate] = {}

    def add_template(self, fn: Callable[..., Any], uri_template: str, **settings: Any) -> ResourceTemplate:
        """Add a function as a template, with the keywords of `ResourceTemplate.from_function`, and return it."""
        self._templates[uri_template] = ResourceTemplate.from_function(fn, uri_template, **settings)
        return self._templates[uri_template]

    def list_templates(self) -> list[ResourceTemplate]:
        """Return the templates."""
        return list(self._templates.values())

    async def get_resource(self, uri: Any, context: Any = None) -> Any:
        """Return a resource, of the first template whose form the URI has if there is no other.

        Raises ResourceNotFoundError for another URI; in 1.x ValueError.
        """
        if (found := self._items.get(str(uri))) is not None:
            return found
        try:
            for template in self._templates.values():
                if (params := template.matches(str(uri))) is not None:
                    return await template.create_resource(str(uri), params, context)
        except ResourceSecurityError as error:
            raise ResourceNotFoundError(f"Unknown resource: {uri}") from error
        raise (ValueError if FORM.is_v1 else ResourceNotFoundError)(f"Unknown resource: {uri}")
