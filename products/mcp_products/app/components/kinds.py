"""The kinds of what an app has: the one table of how each is listed, named, served, and called outside of a mounted
app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from mcp_runtime.protocol.uris import uri_key_with_fragment

from .uris import (
    add_prefix,
    strip_name_prefix,
    strip_prefix,
    with_prefixed_links,
    with_prefixed_name,
    with_prefixed_uri,
)

ComponentKind = Literal["tool", "resource", "template", "prompt"]
ListKind = Literal["tools", "resources", "prompts"]
ProvidedList = Literal["tools", "resources", "resource_templates", "prompts"]
LISTS: Final[tuple[ListKind, ...]] = ("tools", "resources", "prompts")


class Kind(NamedTuple):
    """A kind of what an app has.

    Args:
        name: Its name in rules.
        list: The list that changes with it, which is declared.
        items: The property of a list result that has its definitions.
        key: The property of a definition by which requests name it.
        handler: The name of the handler that serves it.
    """

    name: ComponentKind
    list: ListKind
    items: ProvidedList
    key: str
    handler: str

    @property
    def is_named(self) -> bool:
        """True for what has a name, and no URI, to be found by."""
        return self.key == "name"

    def comparable(self, id: str) -> str:
        """Return the form of a name or a URI that all of its spellings have."""
        return id if self.is_named else uri_key_with_fragment(id)

    def inside(self, prefix: str, id: str) -> str | None:
        """Return the name or the URI inside of an app that is mounted with a prefix; None if it has another one."""
        return strip_name_prefix(prefix, id) if self.is_named else strip_prefix(prefix, id)

    def outside(self, prefix: str, definition: Any) -> Any:
        """Return a definition of a mounted app as it is listed outside."""
        if self.is_named:
            return with_prefixed_name(prefix, definition)
        return definition.model_copy(update={self.key: add_prefix(prefix, getattr(definition, self.key))})

    def result_outside(self, prefix: str, result: Any, inside: str, id: str) -> Any:
        """Return the result of a mounted app for `inside`, which the request outside has named `id`."""
        if self.is_named:
            return with_prefixed_links(prefix, result)
        return with_prefixed_uri(result, inside, id, prefix)


TOOL: Final = Kind("tool", "tools", "tools", "name", "call_tool")
RESOURCE: Final = Kind("resource", "resources", "resources", "uri", "read_resource")
TEMPLATE: Final = Kind("template", "resources", "resource_templates", "uri_template", "read_resource")
PROMPT: Final = Kind("prompt", "prompts", "prompts", "name", "get_prompt")
KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in (TOOL, RESOURCE, TEMPLATE, PROMPT)}
"""The kinds by their names."""
BY_HANDLER: Final[Mapping[str, Kind]] = {kind.handler: kind for kind in (TOOL, RESOURCE, PROMPT)}
"""The kinds by the handlers that serve them."""
BY_LIST_HANDLER: Final[Mapping[str, Kind]] = {f"list_{kind.items}": kind for kind in KINDS.values()}
"""The kinds by the handlers that list them."""
