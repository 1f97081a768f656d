"""Resources of an app: the definition of a resource or resource template, and the call of its function."""

from __future__ import annotations

import base64
import inspect
import logging
from collections.abc import Callable, Mapping
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

from pydantic_core import ValidationError

from ..auth.scopes import check_scopes
from ..errors import JSONRPCError, LocalError, UnwritableValueError
from ..http.urls import is_https_url
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.models import format_validation_error, is_object
from ..protocol.uris import uri_key_with_fragment
from ..server.context import ServerContext
from ..usage.shortened import quoted
from ..usage.unwritable import text_problem
from .components.own_rounds import with_encrypted_state
from .components.uri_templates import URITemplate, Value
from .content import Audio, File, Image, as_list, json_text
from .introspection.generated_types import wire_model
from .introspection.other_versions import as_own
from .settings import ResourceSettings, tags_of, to_definition, to_wire, version_of
from .signature import Signature, function_name

_UNTYPED: Final = (Any, object, NoneType, inspect.Signature.empty)
_PATHS: Final = ("path", "file-path", "directory-path")  # The formats of the types of paths.
_log: Final = logging.getLogger(__name__)


class Resource:
    """A resource of an app, or a resource template if its URI has variables; `definition` is its item in the list."""

    def __init__(
        self, uri: str, function: Callable[..., Any], settings: ResourceSettings, t: ModuleType, indent: int | None
    ) -> None:
        """Create a resource from a function.

        Raises LocalError if the variables of the URI differ from the parameters of the function, and for a public
        resource without an https URI.
        """
        self.uri = uri
        self.key = uri_key_with_fragment(uri)
        self._description = f"the resource {uri!r}"
        self._check_scheme(settings.get("public", False))
        self._t = t
        self._indent = indent
        self._mime_type = settings.get("mime_type")
        self.scopes = check_scopes(settings.get("scopes", ()))
        self.tags = tags_of(settings, self._description)
        self.version = version_of(settings)
        self.template = URITemplate(uri)
        self._signature = Signature(function, self._description, settings.get("thread"))
        self._check(self._signature)
        self._read_by_type(self._signature.schema()["properties"])
        shown = {
            **to_wire(settings, self._signature.summary),
            "name": settings.get("name") or function_name(function) or uri,
            "mimeType": self._mime_type or _mime_type_of(self._signature.returns),
            "annotations": settings.get("annotations"),
        }
        self.is_template = bool(self.template.names)
        if self.is_template:
            if settings.get("size") is not None:
                raise LocalError(
                    f"{self._description}: `size` is that of one resource, not of a template: leave it out"
                )
            self.definition: Any = to_definition(t.ResourceTemplate, {**shown, "uriTemplate": uri}, self._description)
        else:
            self.definition = to_definition(
                t.Resource, {**shown, "uri": uri, "size": settings.get("size")}, self._description
            )

    async def read(self, ctx: ServerContext, uri: str, values: dict[str, Value], result_types: tuple[type, ...]) -> Any:
        """Return the ReadResourceResult. Raises JSONRPCError (invalid params) for invalid values of the variables."""
        try:
            arguments = self._signature.read(values, coerce=True)
        except ValidationError as error:
            raise JSONRPCError(
                INVALID_PARAMS, f"resource not found: {quoted(uri)}: {format_validation_error(error)}", {"uri": uri}
            ) from None
        value = as_own(await self._signature.call(ctx, arguments), self._t, result_types)
        if isinstance(value, result_types):
            return with_encrypted_state(ctx, value)
        parts = [as_own(part, self._t, (self._t.ResourceContents,)) for part in as_list(value)]
        if not any(isinstance(part, self._t.ResourceContents) for part in parts):
            parts = [value]
        return self._t.ReadResourceResult(contents=[self._content(uri, part) for part in parts])

    def _content(self, uri: str, value: Any) -> Any:
        match value:
            case self._t.ResourceContents():
                return value
            case str():
                if (problem := text_problem(value)) is not None:
                    raise self._unwritable(problem)
                return self._t.TextResourceContents(uri=uri, text=value, mime_type=self._mime_type or "text/plain")
            case bytes() | bytearray() | memoryview():
                kind = self._mime_type or "application/octet-stream"
                return self._t.BlobResourceContents(
                    uri=uri, blob=base64.b64encode(bytes(cast(Any, value))).decode(), mime_type=kind
                )
            case Image() | Audio():
                kind = self._mime_type or value.mime_type
                return self._t.BlobResourceContents(uri=uri, blob=value.encoded(), mime_type=kind)
            case _:
                try:
                    text = json_text(value, self._indent)
                except UnwritableValueError as error:
                    raise self._unwritable(error) from None
                return self._t.TextResourceContents(uri=uri, text=text, mime_type=self._mime_type or "application/json")

    def _unwritable(self, reason: object) -> UnwritableValueError:
        return UnwritableValueError(f"{self._description} returned a value that cannot be sent: {reason}")

    def _check_scheme(self, public: bool) -> None:
        """Warn about an https URI that is not public: clients may fetch it without this server.

        https://modelcontextprotocol.io/specification/draft/server/resources#common-uri-schemes
        """
        if is_https_url(self.uri):
            if not public:
                _log.warning(
                    "%s: clients may fetch https:// URIs from the web without this server; set `public=True` if "
                    "the URI is reachable, otherwise use another scheme, such as a custom one",
                    self._description,
                )
        elif public:
            raise LocalError(f"{self._description} cannot be public: public resources need an https:// URI")

    def _read_by_type(self, properties: Mapping[str, Any]) -> None:
        """Read variables as the types of their parameters say: several values for a list, a path of a file."""
        schemas = {name: _schemas_of(properties[name]) for name in self.template.names}
        lists = {name for name, parts in schemas.items() if any(part.get("type") == "array" for part in parts)}
        paths = {name for name, parts in schemas.items() if any(part.get("format") in _PATHS for part in parts)}
        self.template.read_as(lists=lists, paths=paths)

    def _check(self, signature: Signature) -> None:
        if signature.returns is None or signature.returns is type(None):
            raise LocalError(f"{self._description} returns nothing: return text, bytes, or a value for JSON")
        schema = signature.schema()
        variables, required = {*self.template.names}, {*schema.get("required", ())}
        if missing := required - variables | (variables - {*schema["properties"]}):
            raise LocalError(
                f"{self._description}: URI variables and function parameters differ: {', '.join(sorted(missing))}; "
                "add them to both, or remove them"
            )
        if absent := self.template.optional & required:
            raise LocalError(
                f"{self._description}: parameters for query variables need a default: {', '.join(sorted(absent))}"
            )


def _schemas_of(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas of the values of a parameter: those of a union, else its own."""
    return [schema, *(part for part in schema.get("anyOf", ()) if is_object(part))]


def _mime_type_of(returns: Any) -> str | None:
    """Return the MIME type of the contents of a return type; None if it does not say it."""
    origin, inner = get_origin(returns), get_args(returns)
    if origin is Annotated:
        return _mime_type_of(inner[0])
    if origin in (Union, UnionType):
        kinds = {_mime_type_of(hint) for hint in inner}
        return kinds.pop() if len(kinds) == 1 else None
    if any(_has_own_type(hint) for hint in (returns, *inner)) or returns in (
        Any,
        object,
        NoneType,
        inspect.Signature.empty,
    ):
        return None
    if isinstance(returns, type) and issubclass(returns, (str, bytes, bytearray, memoryview)):
        return "text/plain" if issubclass(returns, str) else "application/octet-stream"
    return "application/json"


def _has_own_type(hint: Any) -> bool:
    return isinstance(hint, type) and not get_args(hint) and issubclass(hint, (wire_model(), Image, Audio, File))
