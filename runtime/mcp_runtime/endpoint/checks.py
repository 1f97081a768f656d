"""Checks of params and results that the specification requires and that types cannot express."""

from __future__ import annotations

import binascii
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from .. import products
from ..errors import InvalidMessageError, JSONRPCError, UnwritableValueError
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.lifecycle import is_declared, parse_capability_path
from ..protocol.models import is_list, is_model, is_object, plain_of
from ..protocol.revision import Notification
from ..protocol.uris import encoded_uri, has_traversal, is_uri, uri_key

_log: Final = logging.getLogger(__name__)

Handler = Callable[[Any, Any], Awaitable[Any]]
_SECRET: Final = re.compile(
    r"pass(?:word|wd|phrase)|secret|(?:access|auth|api|bearer|refresh).?(?:token|key)|credit.?card|card.?number|\bcv[cv]\b|\bssn\b|\bpin\b",
    re.IGNORECASE,
)
_OTHER_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://[^\s]")
_MIME: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;.*)?", re.ASCII)


def with_checks(name: str, handler: Handler) -> Handler:
    """Return a handler with checks of its params and of its result; the handler itself if it needs none.

    Args:
        name: The name of the handler, such as "read_resource".
        handler: The handler.

    Invalid params raise JSONRPCError (invalid params), an invalid result InvalidMessageError.
    """
    check_params, check_result = _PARAMS_CHECKS.get(name), RESULT_CHECKS.get(name)
    if check_params is None and check_result is None:
        return handler

    async def handle(ctx: Any, params: Any) -> Any:
        if check_params is not None:
            check_params(params)
        result = await handler(ctx, params)
        if check_result is not None:
            check_result(params, result)
        return result

    return handle


def check_form_answer(params: Any, result: Any) -> None:
    """Raise InvalidMessageError if the content of a form does not match the requested schema.

    See https://modelcontextprotocol.io/specification/draft/client/elicitation#response-actions

    Args:
        params: The params of the elicitation, as a model or as JSON; other params are ignored.
        result: The result of the elicitation.
    """
    schema = getattr(params, "requested_schema", None)
    if is_object(params):
        schema = params.get("requestedSchema")
    if schema is None or getattr(result, "action", None) != "accept":
        return
    forms = products.find("forms")
    mismatch = forms and forms.form_error(_to_json(schema), _to_json(result.content or {}))
    if mismatch:
        raise InvalidMessageError(f"the content does not match the requested schema: {mismatch}")


def warn_about_changed_requests(method: str, answered: Collection[str]) -> None:
    """Log a warning if a handler has made other input requests than in the round before, whose answers are lost.

    Args:
        method: The method of the request.
        answered: The keys of input requests that the client has answered, and the handler has not made again.
    """
    if answered:
        _log.warning(
            "%r: the handler makes other input requests in each round: %s was answered, and not requested again; wrap"
            " values that change in `await ctx.once(key, make)`",
            method,
            ", ".join(sorted(answered)),
        )


def warn_about_secrets(params: Any) -> None:
    """Log a warning for a form that requests secrets: a password, a key, the number of a credit card.

    See https://modelcontextprotocol.io/specification/draft/client/elicitation#security-considerations

    Args:
        params: The params of an elicitation, as a model or as JSON; other params are ignored.
    """
    schema = _to_json(params.get("requestedSchema") if is_object(params) else getattr(params, "requested_schema", None))
    properties = schema.get("properties") if is_object(schema) else None
    for name in properties if is_object(properties) else ():
        if _SECRET.search(name):
            _warn_once(f"a form requests {name[:100]!r}, and forms must not request secrets: use a URL elicitation")


@cache
def _warn_once(text: str) -> None:
    _log.warning("%s", text)


def _to_json(value: Any) -> Any:
    return value.model_dump() if is_model(value) else value


def _require_uri(params: Any) -> None:
    if not is_uri(params.uri):
        params.uri = encoded_uri(params.uri)
    if not is_uri(params.uri):
        raise JSONRPCError(INVALID_PARAMS, f"{params.uri[:200]!r} is not a URI (RFC 3986)", {"uri": params.uri[:200]})


def _check_resources(params: Any, result: Any) -> None:
    for resource in getattr(result, "resources", ()):
        _encode_uri(resource)


def _check_contents(params: Any, result: Any) -> None:
    for content in getattr(result, "contents", ()):
        _check_content(content)


def _check_messages(params: Any, result: Any) -> None:
    for message in getattr(result, "messages", ()):
        content = message.content
        if (encoded := getattr(content, "data", None)) is not None:
            _check_base64(encoded, content.type)
            if not _MIME.fullmatch(content.mime_type):
                raise UnwritableValueError(f"{content.type}: its mime_type is not one, such as image/png")
        elif (resource := getattr(content, "resource", None)) is not None:
            _check_content(resource)
            if resource.mime_type is None:
                raise UnwritableValueError("a resource is embedded without a MIME type: set its mime_type")


def _check_content(content: Any) -> None:
    _encode_uri(content)
    if (blob := getattr(content, "blob", None)) is not None:
        _check_base64(blob, "blob")


def _encode_uri(item: Any) -> None:
    """Percent-encode spaces and the like in the URI of an item. Raises InvalidMessageError if it is not a URI then."""
    if is_uri(item.uri):
        return
    uri = encoded_uri(item.uri)
    if not is_uri(uri):
        raise UnwritableValueError("a uri of the result is not one (RFC 3986)")
    item.uri = uri


def _check_base64(text: str, subject: str) -> None:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise UnwritableValueError(f"{subject}: not base64: {error}") from None


def _check_roots(params: Any, result: Any) -> None:
    roots = _listed_roots(result.roots)
    if len(roots) < len(result.roots):
        result.roots = roots


def check_root(uri: str) -> str:
    """Return the path of a root's URI.

    Raises InvalidMessageError unless it is a local `file://` URI without path traversal, such as an encoded `..`.
    """
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InvalidMessageError(f"the root {uri!r} is not a URI: {error}") from None
    is_local = uri.lower().startswith("file:///") or parts.netloc.lower() == "localhost"  # RFC 8089, section 2.
    if parts.scheme != "file" or not is_local:
        raise InvalidMessageError(f"the root {uri!r} is not a local file:// URI")
    if parts.query or parts.fragment:
        raise InvalidMessageError(f"the root {uri!r} has more than a path")
    path = unquote(parts.path)
    if has_traversal(path):
        raise InvalidMessageError(f"the root {uri!r} has path traversal")
    return path


def _listed_roots(roots: list[Any]) -> list[Any]:
    """Return the roots that may be sent.

    The specification has only `file://` URIs, and servers reject a whole list with another one: roots with another
    scheme, such as https, are left out with a warning. Raises InvalidMessageError for a text that is not a URI, and for
    a `file://` URI that `check_root` rejects.
    """
    listed: list[Any] = []
    for root in roots:
        if (other := _OTHER_SCHEME.match(root.uri)) and other[1].lower() != "file":
            _log.warning("the root %r is left out: the specification has only file:// roots", root.uri[:200])
            continue
        check_root(root.uri)
        listed.append(root)
    return listed


_PARAMS_CHECKS: Final[Mapping[str, Callable[[Any], None]]] = {
    "read_resource": _require_uri,
    "subscribe": _require_uri,
    "unsubscribe": _require_uri,
}
RESULT_CHECKS: Final[Mapping[str, Callable[[Any, Any], None]]] = {
    "list_resources": _check_resources,
    "read_resource": _check_contents,
    "get_prompt": _check_messages,
    "on_list_roots": _check_roots,
    "on_elicit": check_form_answer,
}


# Subscription filters: the changes that a client subscribes to.
#
# MCP specification, https://modelcontextprotocol.io/specification/draft/basic/patterns/subscriptions


class ChangeFilter:
    """The changes that one client subscribes to."""

    __slots__ = ("_filter", "_uris")

    def __init__(self, filter: Mapping[str, Any]) -> None:
        """Create a filter of what a request to listen has."""
        self._filter = filter
        listed = [item for value in filter.values() if is_list(value) for item in value]
        self._uris = frozenset([uri_key(item) for item in listed if isinstance(item, str)])

    def uris(self, rows: Iterable[Notification]) -> list[str]:
        """Return the URIs that the filter lists, without the ids of items that notifications of these rows have."""
        of_items = {row.listed[0] for row in rows if row.listed is not None}
        lists = [value for name, value in self._filter.items() if name not in of_items and is_list(value)]
        return [uri for value in lists for uri in value if isinstance(uri, str)]

    def includes(self, row: Notification, params: Mapping[str, Any]) -> bool:
        """Return True if the filter includes a notification.

        A notification about a resource or an item of a list matches by its URI or id, others by their capability:
        `server.tools.listChanged` matches `toolsListChanged`.
        """
        if row.listed is not None:
            name, key = row.listed
            return is_list(listed := self._filter.get(name)) and params.get(key) in listed
        if "uri" in params:
            return uri_key(params["uri"]) in self._uris
        return self._filter.get(filter_key(row.capability)) is True


def supported_filter(
    requested: Mapping[str, Any], capabilities: Mapping[str, Any], rows: list[Notification]
) -> dict[str, Any]:
    """Return the part of a filter that a server with these capabilities supports."""
    declared = {
        path
        for path in (parse_capability_path(row.capability)[1] for row in rows)
        if is_declared(dict(capabilities), path)
    }
    flags = {filter_key(f"server.{'.'.join(path)}") for path in declared if len(path) > 1}
    has_resources = any(
        row.capability and "uri" in param_names(row) and parse_capability_path(row.capability)[1] in declared
        for row in rows
    )
    lists = {
        row.listed[0]: parse_capability_path(row.capability)[1] in declared for row in rows if row.listed is not None
    }
    return {
        name: value
        for name, value in requested.items()
        if (lists.get(name, has_resources) if is_list(value) else value is True and name in flags)
    }


def names_a_list(row: Notification) -> bool:
    """Return True if a notification says that a list has changed, and nothing more."""
    side, path = parse_capability_path(row.capability) if row.capability else ("", ())
    return side == "server" and len(path) > 1 and row.listed is None and param_names(row) <= {"meta"}


def is_within_resource(uri: str, resource: str) -> bool:
    """Return True if a URI is that of a resource or of a sub-resource, whose changes a server may report as well."""
    if uri == resource:
        return True
    uri, resource = uri_key(uri), uri_key(resource)
    return uri == resource or uri.startswith(resource if resource.endswith("/") else f"{resource}/")


def param_names(row: Notification) -> frozenset[str]:
    """Return the attributes of the params of a notification."""
    return frozenset(getattr(row.params, "__pydantic_fields__", {}))


def filter_key(capability: str) -> str:
    """Return the property of a filter for a capability: `server.tools.listChanged` → `toolsListChanged`."""
    first, *rest = parse_capability_path(capability)[1] if capability else ("",)
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def filter_of(params: Any) -> dict[str, Any]:
    """Return the filter in the params of a request to listen."""
    filter = getattr(params, "notifications", None)
    return plain_of(filter) if is_model(filter) else filter if is_object(filter) else {}
