"""A handler and its name go in; it comes out with the checks around it that the specification asks of its side."""

from __future__ import annotations

import binascii
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Final

from pydantic import BaseModel

from ..errors import InvalidMessageError, InvalidSchemaError, JSONRPCError, LocalError
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.models import is_object

_log: Final = logging.getLogger(__name__)

Handler = Callable[[Any, Any], Awaitable[Any]]
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f<>\"{}|\\^`]*")  # RFC 3986, IRIs tolerated.
_SECRET: Final = re.compile(
    r"pass(?:word|wd|phrase)|secret|(?:access|auth|api|bearer|refresh).?(?:token|key)|credit.?card|card.?number|\bcv[cv]\b|\bssn\b|\bpin\b",
    re.IGNORECASE,
)
_MIME: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;.*)?", re.ASCII)


def with_checks(name: str, handler: Handler) -> Handler:
    """The handler, with the checks of what it is asked and of what it answers, where there are any for this name.

    Bad params raise JSONRPCError (invalid params), a bad answer InvalidMessageError.
    """
    before, after = _PARAMS_CHECKS.get(name), _RESULT_CHECKS.get(name)
    if before is None and after is None:
        return handler

    async def checked(ctx: Any, params: Any) -> Any:
        if before is not None:
            before(params)
        answer = await handler(ctx, params)
        if after is not None:
            after(params, answer)
        return answer

    return checked


def check_form_answer(params: Any, answer: Any) -> None:
    """Raise InvalidMessageError where what a user filled in does not fit the form that was asked for."""
    schema = getattr(params, "requested_schema", None)
    if is_object(params):
        schema = params.get("requestedSchema")
    if schema is None or getattr(answer, "action", None) != "accept":
        return
    from ..json_schema.validator import compile_schema

    try:
        fitting = compile_schema(_plain_text(schema))
    except InvalidSchemaError as fault:
        _log.debug("the content of a form is not checked: %s", fault)
        return
    except LocalError as fault:
        _warn_once(f"the contents of forms are not checked: {fault}")
        return
    if wrong := fitting.first_error(_plain_text(answer.content or {})):
        raise InvalidMessageError(f"the content does not fit the form that was asked for: {wrong}")


def warn_about_secrets(params: Any) -> None:
    """Warn in the log of a form that asks for what no form may ask for: a password, a key, the number of a card
    (client/elicitation, Security Considerations)."""
    schema = _plain_text(
        params.get("requestedSchema") if is_object(params) else getattr(params, "requested_schema", None)
    )
    properties = schema.get("properties") if is_object(schema) else None
    for name in properties if is_object(properties) else ():
        if _SECRET.search(name):
            _warn_once(f"a form asks for {name[:100]!r}; what is secret is never asked for by a form")


@cache
def _warn_once(text: str) -> None:
    _log.warning("%s", text)


def _plain_text(value: Any) -> Any:
    return value.model_dump() if isinstance(value, BaseModel) else value


def _require_uri(params: Any) -> None:
    if not _URI.fullmatch(params.uri):
        raise JSONRPCError(INVALID_PARAMS, f"{params.uri[:200]!r} is not a URI (RFC 3986)", {"uri": params.uri[:200]})


def _check_resources(params: Any, answer: Any) -> None:
    for resource in getattr(answer, "resources", ()):
        _check_uri(resource.uri)


def _check_contents(params: Any, answer: Any) -> None:
    for content in getattr(answer, "contents", ()):
        _check_content(content)


def _check_messages(params: Any, answer: Any) -> None:
    for message in getattr(answer, "messages", ()):
        content = message.content
        if (encoded := getattr(content, "data", None)) is not None:
            _check_base64(encoded, content.type)
            if not _MIME.fullmatch(content.mime_type):
                raise InvalidMessageError(f"{content.mime_type!r} is not a MIME type")
        elif (resource := getattr(content, "resource", None)) is not None:
            _check_content(resource)
            if resource.mime_type is None:
                raise InvalidMessageError(f"the resource {resource.uri!r} is embedded without a MIME type")


def _check_content(content: Any) -> None:
    _check_uri(content.uri)
    if (blob := getattr(content, "blob", None)) is not None:
        _check_base64(blob, content.uri)


def _check_uri(uri: str) -> None:
    if not _URI.fullmatch(uri):
        raise InvalidMessageError(f"{uri[:200]!r} is not a URI (RFC 3986)")


def _check_base64(text: str, what: str) -> None:
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError as fault:
        raise InvalidMessageError(f"{what}: not base64: {fault}") from None


def _check_roots(params: Any, answer: Any) -> None:
    from .roots import check_root

    for root in answer.roots:
        check_root(root.uri)


_PARAMS_CHECKS: Final[Mapping[str, Callable[[Any], None]]] = {
    "read_resource": _require_uri,
    "subscribe": _require_uri,
    "unsubscribe": _require_uri,
}
_RESULT_CHECKS: Final[Mapping[str, Callable[[Any, Any], None]]] = {
    "list_resources": _check_resources,
    "read_resource": _check_contents,
    "get_prompt": _check_messages,
    "on_list_roots": _check_roots,
    "on_elicit": check_form_answer,
}
