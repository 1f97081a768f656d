"""The input schema of an operation, and the HTTP request for its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from pydantic_core import to_json

from ...errors import ToolError
from ...protocol.models import is_object
from .component_schemas import SchemaConverter, usable
from .openapi_document import OpenAPIParameter, Operation, RequestBody, is_json_type
from .parameter_styles import EncodedItems, cookie_items, header_text, path_text, query_items, scalar

_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_UNUSABLE: Final = re.compile(r"[^A-Za-z0-9_.-]")  # Characters that models do not accept in the name of an argument.
_MAX_NAME: Final = 64
_MAX_DEFINITIONS: Final = 32_000  # Bytes.


class APIRequest(NamedTuple):
    """A request without its origin: `target` is the path with the query, relative to the URL of the API."""

    method: str
    target: str
    headers: dict[str, str]
    content: bytes | None
    files: list[tuple[str, Any]] | None


class OperationArguments:
    """The arguments of an operation: its parameters and the properties of its body, with distinct names."""

    def __init__(self, operation: Operation, converter: SchemaConverter) -> None:
        """Name the arguments. A parameter whose name another argument has gets its location as a suffix."""
        self._operation = operation
        self._body_schema = self._body_properties(operation.body, converter)
        properties: Mapping[str, Any] = (self._body_schema or {}).get("properties") or {}
        self.body_names: dict[str, str] = {}
        for name in properties:
            self.body_names[self._free(name, "body", {})] = name
        self.body_name = self._free("body", "body", {}) if operation.body and self._body_schema is None else None
        self.parameters: dict[str, OpenAPIParameter] = {}
        for parameter in operation.parameters:
            self.parameters[self._free(parameter.name, parameter.location, self.parameters)] = parameter
        self.schema = usable(self._schema(converter))

    def request(self, arguments: Mapping[str, Any]) -> APIRequest:
        """Return the request for validated arguments. Raises ToolError for values that a request cannot have."""
        operation = self._operation
        path, query, headers, cookies = operation.path, EncodedItems(), dict[str, str](), list[str]()
        for argument, parameter in self.parameters.items():
            if argument not in arguments:
                continue
            value = arguments[argument]
            if parameter.content_type is not None:
                value = to_json(value).decode() if is_json_type(parameter.content_type) else scalar(value)
            if parameter.location == "path":
                path = path.replace(f"{{{parameter.name}}}", path_text(parameter, value).replace("{", "%7B"))
            elif parameter.location == "query":
                query += self._own(parameter, query_items(parameter, value))
            elif parameter.location == "header":
                headers[parameter.name] = header_text(parameter, value)
            elif parameter.location == "cookie":
                cookies += [f"{name}={text}" for name, text in self._own(parameter, cookie_items(parameter, value))]
        if cookies:
            headers["Cookie"] = "; ".join(cookies)
        if any(segment in (".", "..") for segment in path.split("/")):
            raise ToolError(f"the arguments give the path {path[:200]!r}, which leaves that of the operation")
        target = path + "".join(("?", "&".join(f"{name}={value}" for name, value in query))) if query else path
        content, files = self._content(arguments, headers)
        return APIRequest(operation.method, target, headers, content, files)

    def _own(self, parameter: OpenAPIParameter, items: EncodedItems) -> EncodedItems:
        """Return the items of a parameter. Raises ToolError if a key of an object is the name of another parameter."""
        for other in self._operation.parameters if parameter.explode else ():
            if other.location == parameter.location and other.name != parameter.name:
                if any(unquote(name) == other.name for name, _ in items):
                    raise ToolError(f"{parameter.name!r} cannot have the key {other.name!r}: it is another parameter")
        return items

    def _content(
        self, arguments: Mapping[str, Any], headers: dict[str, str]
    ) -> tuple[bytes | None, list[tuple[str, Any]] | None]:
        """Return the body, or the parts of a multipart body; set the content type."""
        body = self._operation.body
        if body is None:
            return None, None
        fields = {name: arguments[argument] for argument, name in self.body_names.items() if argument in arguments}
        value = fields if self.body_name is None else arguments.get(self.body_name)
        if value is None or (not value and self.body_name is None and not body.required):
            return None, None
        if body.content_type == _MULTIPART and is_object(value):
            return None, [(str(name), (None, scalar(item))) for name, item in value.items()]
        headers["Content-Type"] = body.content_type
        if body.content_type == _FORM and is_object(value):
            encoded = [entry for name, item in value.items() for entry in query_items(_field(body, str(name)), item)]
            return "&".join(f"{name}={text}" for name, text in encoded).encode(), None
        if is_json_type(body.content_type) or not isinstance(value, str):
            return to_json(value), None
        return value.encode(), None

    def _body_properties(self, body: RequestBody | None, converter: SchemaConverter) -> dict[str, Any] | None:
        """Return the object schema whose properties become arguments, None if the body is one argument or absent."""
        if body is None or not (is_json_type(body.content_type) or body.content_type in (_FORM, _MULTIPART)):
            return None
        return converter.merged_properties(body.schema)

    def _free(self, name: str, location: str, used: Mapping[str, Any]) -> str:
        base = _UNUSABLE.sub("_", name)[:_MAX_NAME] or location
        used_names = {*self.body_names, *used, *filter(None, [getattr(self, "body_name", None)])}
        if base not in used_names:
            return base
        base = f"{base[: _MAX_NAME - 10]}__{location}"
        return next(
            f"{base}{number or ''}"
            for number in range(len(used_names) + 1)
            if f"{base}{number or ''}" not in used_names
        )

    def _schema(self, converter: SchemaConverter) -> dict[str, Any]:
        body = self._operation.body
        sources: dict[str, Any] = {}
        required = [argument for argument, parameter in self.parameters.items() if parameter.required]
        for argument, parameter in self.parameters.items():
            sources[argument] = _described(parameter.schema, parameter.description)
        if self._body_schema is not None and body is not None:
            for argument, name in self.body_names.items():
                sources[argument] = self._body_schema["properties"][name]
                if name in self._body_schema["required"] and (body.required or not self._operation.parameters):
                    required.append(argument)
        elif body is not None and self.body_name is not None:
            sources[self.body_name] = _described(body.schema, body.description)
            required += [self.body_name] if body.required else []
        merged = {"type": "object", "properties": sources, "required": required, "additionalProperties": False}
        schema = converter.convert(merged, "readOnly", _MAX_DEFINITIONS)
        if not schema["required"]:
            del schema["required"]
        return schema


def _described(schema: Any, description: str | None) -> Any:
    return {**schema, "description": description} if description and is_object(schema) else schema


def _field(body: RequestBody, name: str) -> OpenAPIParameter:
    """Return the property of a form as a parameter of a query, which is encoded in the same way."""
    encoding = body.encoding.get(name)
    encoding = encoding if is_object(encoding) else {}
    style = str(encoding.get("style", "form"))
    return OpenAPIParameter(
        name=name,
        location="query",
        required=False,
        style=style,
        explode=bool(encoding.get("explode", style in ("form", "deepObject"))),
        schema=True,
        allow_reserved=encoding.get("allowReserved") is True,
    )
