"""Apps from OpenAPI documents and from FastAPI applications."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Literal

from mcp_products.app.components.visibility import text_set
from mcp_products.app.settings import NamedKeywords
from mcp_products.json_schema.validator import compile_schema
from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_object

from .document import OpenAPIDocument, OpenAPIParameter, Operation, is_json_type
from .document import load_document as load_document
from .requests import APIClient, OperationArguments, OperationCall
from .schemas import SchemaConverter, usable

_MAX_DEFINITIONS: Final = 8_000  # Bytes of the definitions of an output schema.
_MAX_NAME: Final = 64  # The limit of hosts; that of the specification is 128.

# Rules that decide whether an operation becomes a tool, a resource or nothing; their names are those of FastMCP.


class MCPType(Enum):
    """What an operation becomes. Both kinds of resources read by GET; one with path parameters is a template."""

    TOOL = "TOOL"
    RESOURCE = "RESOURCE"
    RESOURCE_TEMPLATE = "RESOURCE_TEMPLATE"
    EXCLUDE = "EXCLUDE"


@dataclass(kw_only=True, frozen=True)
class RouteMap:
    """A rule: operations with these methods, a path that the pattern matches, and all these tags become this type.

    Args:
        mcp_type: What the operations become.
        methods: HTTP methods in upper case, or "*" for all.
        pattern: A regular expression to search in the path.
        tags: Tags that an operation must have, all of them.
        mcp_tags: Tags of the tools and resources.
    """

    mcp_type: MCPType
    methods: Sequence[str] | Literal["*"] = "*"
    pattern: str | re.Pattern[str] = r".*"
    tags: set[str] = field(default_factory=set[str])
    mcp_tags: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        if isinstance(self.methods, str) and self.methods != "*":
            raise LocalError(f"RouteMap(): methods={self.methods!r} must be a list; write methods=[{self.methods!r}]")

    def matches(self, operation: Operation) -> bool:
        """Return True if the rule applies to the operation."""
        return (
            (self.methods == "*" or operation.method in {method.upper() for method in self.methods})
            and re.search(self.pattern, operation.path) is not None
            and self.tags <= set(operation.tags)
        )


RouteMapFunction = Callable[[Operation, MCPType], MCPType | None]


def choose_type(
    operation: Operation, maps: Sequence[RouteMap], function: RouteMapFunction | None
) -> tuple[MCPType, set[str]]:
    """Return what an operation becomes by the first rule that applies, else a tool; and the tags of the rule.

    Raises LocalError for a resource that is not read by GET.
    """
    rule = next((rule for rule in maps if rule.matches(operation)), RouteMap(mcp_type=MCPType.TOOL))
    kind: Any = rule.mcp_type
    if function is not None:
        kind = function(operation, kind) or kind
    if not isinstance(kind, MCPType):
        raise LocalError(f"route_map_fn returned {kind!r} for {operation}; return an MCPType, or None to keep its type")
    if kind in (MCPType.RESOURCE, MCPType.RESOURCE_TEMPLATE) and operation.method != "GET":
        raise LocalError(
            f'{operation} cannot be a resource: resources are read by GET; add methods=["GET"] to the RouteMap'
        )
    return kind, rule.mcp_tags


def add_operations(
    app: Any,
    source: tuple[Any, str | None],
    client: Any,
    *,
    route_maps: Sequence[RouteMap] = (),
    route_map_fn: RouteMapFunction | None = None,
    mcp_names: Mapping[str, str] | None = None,
    tags: set[str] | None = None,
    validate_output: bool = True,
    encoded_slashes: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Add the operations of an OpenAPI document, as `load_document` returns it, to an app.

    Raises LocalError for an invalid document or client, and for rules that cannot apply.
    """
    root, location = source
    document = OpenAPIDocument(root)
    api = APIClient(_default_client(document, location) if client is None else client)
    converter = SchemaConverter(document)
    names: set[str] = set()
    slashes: dict[str, frozenset[str]] = {}
    given: Any = encoded_slashes or {}
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"from_openapi(): encoded_slashes={given!r} must be a dict, such as {{'getProject': {{'id'}}}}")
    for key, parameters in (encoded_slashes or {}).items():
        slashes[key] = text_set("from_openapi()", "encoded_slashes", parameters)
    unused = {(key, name) for key, names in slashes.items() for name in names}
    for described in document.operations():
        operation = _with_encoded_slashes(described, slashes, unused) if slashes else described
        kind, mcp_tags = choose_type(operation, route_maps, route_map_fn)
        if kind is MCPType.EXCLUDE:
            continue
        name = _name(operation, mcp_names or {}, names)
        names.add(name)
        arguments = OperationArguments(operation, converter)
        call = OperationCall(operation, arguments, api, app.types)
        settings = _settings(operation, {*(tags or ()), *mcp_tags, *operation.tags})
        if kind is MCPType.TOOL:
            _add_tool(app, name, operation, call, arguments, converter if validate_output else None, settings)
        else:
            _add_resource(app, name, operation, call, arguments, settings)
    for key, parameter in sorted(unused):
        raise LocalError(
            f"from_openapi(): encoded_slashes has {parameter!r} of {key!r}, and there is no such path parameter: write "
            "its name, and an operationId, a line such as 'GET /projects/{id}', or '*'"
        )


def title_of(document: Mapping[str, Any]) -> str:
    """Return the title of an API."""
    return OpenAPIDocument(document).title


def fastapi_document(application: Any) -> dict[str, Any]:
    """Return the document of a FastAPI application, in which parameters that span several segments are marked.

    Raises LocalError for another object.
    """
    make: Callable[[], dict[str, Any]] | None = getattr(application, "openapi", None)
    if make is None or not callable(application):
        raise LocalError(
            f"from_fastapi(): {application!r} is not a FastAPI application; pass FastAPI(), or use from_openapi()"
        )
    document = make()
    spanning = {
        (re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path), name)
        for route in getattr(application, "routes", ())
        for name in re.findall(r"\{(\w+):path\}", getattr(route, "path", ""))
    }
    paths: dict[str, Any] = document.get("paths", {})
    return {**document, "paths": {path: _marked(path, item, spanning) for path, item in paths.items()}}


def fastapi_client(application: Any, settings: Mapping[str, Any]) -> Any:
    """Return a client that calls an ASGI application in this process. Raises LocalError without httpx2."""
    try:
        from httpx2 import ASGITransport, AsyncClient
    except ModuleNotFoundError:
        raise LocalError("from_fastapi() needs httpx2: pip install 'mcp-generated[openapi]'") from None
    keywords: dict[str, Any] = {"base_url": "http://fastapi", **settings}
    return AsyncClient(transport=ASGITransport(app=application), **keywords)


def _marked(path: str, item: Mapping[str, Any], spanning: set[tuple[str, str]]) -> dict[str, Any]:
    def mark(parameter: Any) -> Any:
        spans = parameter.get("in") == "path" and (path, parameter.get("name")) in spanning
        return {**parameter, "x-multi-segment": True} if spans else parameter

    return {
        method: (
            {**operation, "parameters": [*map(mark, operation.get("parameters", ()))]}
            if is_object(operation)
            else operation
        )
        for method, operation in item.items()
    }


def _default_client(document: OpenAPIDocument, location: str | None) -> Any:
    url = document.server_url(location)
    if url is None:
        raise LocalError(
            'from_openapi(): the document has no absolute server URL; write client=httpx2.AsyncClient(base_url="https://…")'
        )
    try:
        from httpx2 import AsyncClient
    except ModuleNotFoundError:
        raise LocalError("from_openapi() needs httpx2: pip install 'mcp-generated[openapi]'") from None
    return AsyncClient(base_url=url, timeout=30)


def _name(operation: Operation, mcp_names: Mapping[str, str], used: set[str]) -> str:
    """Return a name of its own for an operation: from `mcp_names`, its operationId, or its method and path."""
    id = operation.operation_id
    chosen = mcp_names.get(id) if id is not None else None
    base = chosen or id or f"{operation.method.lower()}_{_path_words(operation.path)}"
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", base).strip("_")[:_MAX_NAME] or "operation"
    number = 2
    unique = name
    while unique in used:
        unique, number = f"{name[: _MAX_NAME - 5]}_{number}", number + 1
    return unique


def _path_words(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", path).strip("_") or "root"


def _settings(operation: Operation, tags: set[str]) -> dict[str, Any]:
    description = "\n\n".join(dict.fromkeys(filter(None, (operation.summary, operation.description))))
    settings: dict[str, Any] = {"description": description or str(operation)}
    return settings | ({"meta": {"tags": sorted(tags)}} if tags else {})


def _add_tool(
    app: Any,
    name: str,
    operation: Operation,
    call: OperationCall,
    arguments: OperationArguments,
    converter: SchemaConverter | None,
    settings: dict[str, Any],
) -> None:
    output = None if converter is None else _output_schema(operation, converter, call)
    call.output = None if output is None else compile_schema(output)
    hints = {"readOnlyHint": operation.method in ("GET", "HEAD"), "openWorldHint": True}
    app.add_tool(call.call, name, input_schema=arguments.schema, output_schema=output, annotations=hints, **settings)


def _output_schema(operation: Operation, converter: SchemaConverter, call: OperationCall) -> dict[str, Any] | None:
    """Return the output schema of a tool: the schemas of all successful responses in JSON, or an empty object.

    Any response may come without content, and a client requires structured content if a tool has an output schema.
    """
    schemas: list[Any] = []
    for response in operation.responses:
        if response.content_type is not None and is_json_type(response.content_type) and response.schema not in schemas:
            schemas.append(response.schema)
    if not schemas or operation.method == "HEAD":
        return None
    output = converter.convert(schemas[0] if len(schemas) == 1 else {"anyOf": schemas}, "writeOnly", _MAX_DEFINITIONS)
    call.wraps = _is_no_object(output)
    if call.wraps:
        definitions = output.pop("$defs", None)
        output = {"type": "object", "properties": {"result": output}}
        return usable(output if definitions is None else {**output, "$defs": definitions})
    return _with_empty_object(usable({"type": "object", **output}))


def _with_empty_object(output: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object, which may be empty as well."""

    def allows_empty(schema: dict[str, Any]) -> bool:
        return compile_schema(schema).first_error({}) is None

    if allows_empty(output):
        return output
    without = {key: value for key, value in output.items() if key != "required"}
    if "anyOf" not in output and allows_empty(without):  # The properties stay where readers of schemas look for them.
        return {**without, "anyOf": [{"required": output["required"]}, {"maxProperties": 0}]}
    inner = {key: value for key, value in output.items() if key != "$defs"}
    definitions = {"$defs": output["$defs"]} if "$defs" in output else {}
    return {"type": "object", "anyOf": [inner, {"maxProperties": 0}], **definitions}


def _with_encoded_slashes(
    operation: Operation, slashes: Mapping[str, Collection[str]], unused: set[tuple[str, str]]
) -> Operation:
    """Return an operation in which the parameters that `encoded_slashes` names send a slash as `%2F`."""
    changed: list[OpenAPIParameter] = []
    for parameter in operation.parameters:
        keys = [
            key for key in ("*", operation.operation_id, str(operation)) if parameter.name in slashes.get(key or "", ())
        ]
        if keys and parameter.location == "path":
            unused -= {(key or "", parameter.name) for key in keys}
            parameter = replace(parameter, encodes_slashes=True)
        changed.append(parameter)
    return replace(operation, parameters=tuple(changed))


def _is_no_object(schema: Mapping[str, Any]) -> bool:
    """Return True if the values of a schema are not objects, as far as the schema says it."""
    definitions: Mapping[str, Any] = schema.get("$defs") or {}
    for _ in range(len(definitions) + 1):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            break
        schema = definitions.get(reference.rpartition("/")[2], {})
    return schema.get("type", "object") != "object" or any(
        _is_no_object({**part, "$defs": definitions}) for key in ("anyOf", "oneOf") for part in schema.get(key, ())
    )


def _add_resource(
    app: Any,
    name: str,
    operation: Operation,
    call: OperationCall,
    arguments: OperationArguments,
    settings: dict[str, Any],
) -> None:
    variables: dict[str, str] = {}
    for argument, parameter in arguments.parameters.items():
        if parameter.location == "path":
            variables[re.sub(r"\W", "_", f"_{argument}" if argument[0].isdigit() else argument)] = argument
        elif parameter.required:
            raise LocalError(
                f"{operation} cannot be a resource: its parameter {parameter.name!r} is required; map it to a tool"
            )

    async def read(**values: str) -> Any:
        return await call.read({variables[name]: value for name, value in values.items()})

    kind = inspect.Parameter.KEYWORD_ONLY
    signature = [inspect.Parameter(name, kind, annotation=str) for name in variables]
    function: Any = read
    function.__signature__ = inspect.Signature(signature)
    function.__annotations__ = dict.fromkeys(variables, str)
    spans = {
        variable: "+" if arguments.parameters[argument].multi_segment else ""
        for variable, argument in variables.items()
    }
    uri = f"resource://{name}" + "".join(f"/{{{spans[variable]}{variable}}}" for variable in variables)
    mime_type = operation.response[0] if operation.response is not None else None
    app.add_resource(uri, function, name=name, mime_type=mime_type, **settings)


# The keywords of `App.from_fastapi`, for type checkers.


class OpenAPIKeywords(NamedKeywords, total=False):
    """The keywords of `App.from_openapi(…)` besides the document, the client and the name."""

    route_maps: Sequence[RouteMap] | None
    route_map_fn: RouteMapFunction | None
    mcp_names: Mapping[str, str] | None
    tags: set[str] | None
    validate_output: bool
    encoded_slashes: Mapping[str, Collection[str]] | None
