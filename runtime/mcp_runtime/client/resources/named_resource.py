"""Find a resource or a resource template of a server by its name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from ...errors import LocalError, ProtocolViolationError, RemoteJSONRPCError
from ...protocol.jsonrpc import METHOD_NOT_FOUND
from ...protocol.uris import is_same_uri
from ...usage.keywords import nearest
from .uri_expansion import expand

_MAX_REMEDY: Final = 300  # Characters.


async def uri_of(
    name: str,
    variables: Mapping[str, Any],
    resources: Callable[[], AsyncIterator[Any]],
    templates: Callable[[], AsyncIterator[Any]],
) -> str:
    """Return the URI of the resource, or of the resource template, with this name.

    Args:
        name: The name, the title or the URI of a resource, or the name, the title or the text of a template.
        variables: The values of the template's variables.
        resources: Returns an iterator over the resources of the server.
        templates: Returns an iterator over the resource templates of the server.

    Raises LocalError if there is none or more than one, if a resource gets variables, and for wrong variables.
    """
    listed = [(item, item.uri) for item in await _items(resources)]
    patterns = [(item, item.uri_template) for item in await _items(templates)]
    uris = _matching(name, listed)
    matching = _matching(name, patterns)
    if uris and not variables and (not matching or len(uris) == 1):
        return _only(name, uris)
    if matching:
        return expand(_only(name, matching), variables)
    if uris:
        raise LocalError(f"get_resource(): {name!r} is a resource without variables: leave out {', '.join(variables)}")
    names = list(dict.fromkeys(item.name for item, _ in (*listed, *patterns)))
    remedy = nearest(name, names, "resources") if names else "it has none"
    if len(remedy) > _MAX_REMEDY:
        remedy = f"it has {len(names)} others"
    raise LocalError(f"get_resource(): the server has no resource {name!r}; {remedy}")


def _matching(name: str, items: list[tuple[Any, str]]) -> list[str]:
    """Return the URIs of the items with this name; without one, of those with this title or URI."""
    by_name = [uri for item, uri in items if item.name == name]
    others = [uri for item, uri in items if name == getattr(item, "title", None) or _is_uri(name, uri)]
    return list(dict.fromkeys(by_name or others))


def _is_uri(name: str, uri: str) -> bool:
    return name == uri or (":" in name and is_same_uri(name, uri))


def _only(name: str, uris: list[str]) -> str:
    if len(uris) > 1:
        raise LocalError(f"get_resource(): {name!r} is the name of {', '.join(uris)}: write read_resource(uri)")
    return uris[0]


async def _items(iterator: Callable[[], AsyncIterator[Any]]) -> list[Any]:
    """Return the items of a list; none if the server does not have that list."""
    try:
        return [item async for item in iterator()]
    except ProtocolViolationError:
        return []
    except RemoteJSONRPCError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return []
