"""The components of FastMCP: `Tool`, `Resource`, `ResourceTemplate` and `Prompt`, made of functions.

Each is a description that a program can read, run, change and add to a server. What runs a function is that of an app.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from mcp_products.app import tools as app_tools
from mcp_products.app.context import current
from mcp_products.app.prompts import Prompt as AppPrompt
from mcp_products.app.results import ToolFailures
from mcp_products.app.signatures.signature import Signature, function_name
from mcp_products.app.transformed_tools import transformed_tool
from mcp_runtime.errors import InvalidMessageError, JSONRPCError, LocalError, ToolError
from mcp_runtime.protocol.models import is_object

from ..forms.errors import PromptError, as_value_errors
from ..forms.errors import ValidationError as ArgumentsError
from ..forms.form import FORM, official
from ..registered import MARK, StandaloneTool, words_of
from .results import PromptResult, ResourceResult, ToolResult, contents_of
from .uris import INHERIT_SECURITY, check_function, check_variables, match_uri_template

_t: Any = FORM.types
_app_types: Any = FORM.app_class.types
_WRONG: Final = {
    "bool_parsing": "Invalid boolean value for {name}: {value!r}",
    "int_parsing": "invalid literal for int() with base 10: {value!r}",
}
_WIRE: Final = ("name", "title", "description", "icons", "annotations")


def context() -> Any:
    """Return the context of the request that is handled now; one without a client elsewhere."""
    try:
        ctx = copy(current.get_context())
    except LocalError:
        ctx = SimpleNamespace(raises_failures=False, task_options=None, multi_round_trip=None)
    ctx.failures = ToolFailures()
    return ctx


def marked(fn: Any, name: str | None, settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and the keywords of a function: those that are given, and those of a decorator besides. Raises
    ValueError for a lambda without a name."""
    own: dict[str, Any] = fn.__fastmcp__.given() if hasattr(fn, MARK) else {}
    given: dict[str, Any] = {**own, **{key: value for key, value in settings.items() if value is not None}}
    name = name or given.pop("name", None)
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = name or function_name(fn) or ("" if inspect.isroutine(fn) else type(fn).__name__)
    if not name:
        raise ValueError("You must provide a name for lambda functions")
    return name, {key: value for key, value in given.items() if key != "name"}


class Component(BaseModel):
    """What all components have."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", validate_default=True)

    name: str = ""
    version: str | None = None
    title: str | None = None
    description: str | None = None
    icons: list[Any] | None = None
    tags: set[str] = Field(default_factory=set[str])
    meta: dict[str, Any] | None = None
    auth: Any = Field(default=None, exclude=True)
    annotations: Any = None

    @field_validator("tags", "version", "mime_type", mode="before", check_fields=False)
    @classmethod
    def _plain(cls, value: Any, info: Any) -> Any:
        if info.field_name == "version":
            return value if value is None else str(value)
        return value or cls.model_fields[info.field_name].get_default(call_default_factory=True)

    def get_meta(self) -> dict[str, Any]:
        """Return `meta`, with what FastMCP adds to it."""
        own: dict[str, Any] = {"tags": sorted(self.tags)} | ({} if self.version is None else {"version": self.version})
        meta = self.meta or {}
        return {**meta, "fastmcp": {**meta.get("fastmcp", {}), **own}}

    def wire(self, overrides: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        """Return the fields of the component in a list of the protocol."""
        return {**{name: getattr(self, name) for name in _WIRE}, "meta": self.get_meta(), **fields, **overrides}

    def settings(self, *names: str) -> dict[str, Any]:
        """Return the keywords with which a server adds the component."""
        names = ("name", "title", "description", "icons", "tags", "meta", "version", "auth", *names)
        return {name: value for name in names if (value := getattr(self, name)) is not None and value != set()}


# ---- tools ----------------------------------------------------------------------------------------------------------


class Tool(Component):
    """A tool. A subclass has a method `run`."""

    parameters: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    timeout: float | None = None

    @classmethod
    def from_function(cls, fn: Any, name: str | None = None, **settings: Any) -> FunctionTool:
        """Return the tool of a function; `settings` are those of `@mcp.tool`. Raises ValueError."""
        return FunctionTool.of(fn, name, settings)

    @classmethod
    def from_tool(cls, tool: Any, name: str | None = None, **changes: Any) -> TransformedTool:
        """Return a changed copy of a tool, or of a function. Raises ValueError for changes that do not fit."""
        return TransformedTool.of(tool if isinstance(tool, Tool) else Tool.from_function(tool), name, changes)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the tool. Raises what its function raises, and ValidationError for arguments that do not fit."""
        raise NotImplementedError("Subclasses must implement run()")

    def convert_result(self, raw_value: Any) -> ToolResult:
        """Return the result of a value: a dict, and any value of a tool whose schema says so, is structured content."""
        if isinstance(raw_value, _t.CallToolResult):
            return raw_value if isinstance(raw_value, ToolResult) else ToolResult.from_mcp_result(raw_value)
        is_wrapped = (self.output_schema or {}).get("x-fastmcp-wrap-result")
        structured: Any = {"result": raw_value} if is_wrapped else raw_value
        return ToolResult([] if raw_value is None else raw_value, structured if is_object(structured) else None)

    def registered(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function and the keywords of `FastMCP.add_tool`."""

        async def call(arguments: dict[str, Any]) -> Any:
            return await self.run(arguments)

        settings = self.settings("annotations", "timeout", "output_schema")
        return call, {**settings, "input_schema": self.parameters}

    def app_tool(self) -> app_tools.Tool:
        """Return the tool as one of an app."""
        function, settings = self.registered()
        own: Any = {key: value for key, value in settings.items() if key not in ("name", "auth")}
        return StandaloneTool(function, self.name, own, _app_types, True, None)

    def to_mcp_tool(self, **overrides: Any) -> Any:
        """Return the tool of a list of the protocol."""
        shown = overrides.get("annotations", self.annotations)
        title = shown.get("title") if is_object(shown) else getattr(shown, "title", None)
        title = self.title or title or words_of(overrides.get("name", self.name))
        fields = {"input_schema": self.parameters, "output_schema": self.output_schema, "title": title}
        return _t.Tool(**self.wire(overrides, **fields))


class MadeTool(Tool):
    """A tool that an app runs."""

    fn: Any = None
    _made: Any = PrivateAttr(None)

    @classmethod
    def of_made(cls, made: app_tools.Tool, **fields: Any) -> Self:
        """Return a tool of an app; `fields` replace those that it has."""
        wire = made.as_json()
        meta = {key: value for key, value in wire.get("_meta", {}).items() if key != "fastmcp"}
        own: dict[str, Any] = {name: wire[name] for name in _WIRE if name in wire}
        own |= {"parameters": wire["inputSchema"], "output_schema": wire.get("outputSchema"), "meta": meta or None}
        own |= {"fn": made.function, "tags": {*made.tags}, "version": made.version, **fields}
        tool = cls(**own)
        tool._made = made
        return tool

    def app_tool(self) -> app_tools.Tool:
        """Return the tool as one of an app."""
        made: app_tools.Tool = self._made or super().app_tool()
        return made

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the function with validated arguments."""
        kind = _app_types.CallToolResult
        try:
            result = await self.app_tool().call(context(), arguments, (kind,), (Exception,))
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise error.__cause__ from None
            raise
        return ToolResult.from_mcp_result(official(result))


class FunctionTool(MadeTool):
    """The tool of a function."""

    run_in_thread: bool | None = True
    task_config: Any = None

    @classmethod
    def of(cls, fn: Any, name: str | None, settings: dict[str, Any]) -> Self:
        """Return the tool of a function. Raises ValueError for one that cannot be a tool."""
        infers, output = "output_schema" not in settings, settings.pop("output_schema", None)
        name, given = marked(fn, name, settings)
        threads, task = given.pop("run_in_thread", True), given.pop("task", None)
        own: Any = {key: given[key] for key in ("timeout", "description", "annotations") if key in given}
        own |= {} if threads else {"thread": False}
        own |= {} if infers else {"output_schema": output} if output else {"structured_output": False}
        check_function(fn, "tools")
        with as_value_errors():
            made = StandaloneTool(fn, name, own, _app_types, True, None)
        fields = {"title": None, "annotations": None, "run_in_thread": threads, "task_config": task, **given}
        return cls.of_made(made, **fields)

    def registered(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function and the keywords of `FastMCP.add_tool`."""
        settings = self.settings("annotations", "timeout")
        if self._made is None or self._made.as_json().get("outputSchema") != self.output_schema:
            settings |= {"output_schema": self.output_schema} if self.output_schema else {"structured_output": False}
        return self.fn, {**settings, "run_in_thread": self.run_in_thread, "task": self.task_config or False}


@dataclass(frozen=True, kw_only=True)
class ArgTransform(app_tools.ArgTransform):
    """The changes of one argument of a tool. Raises ValueError for changes that contradict each other."""

    def __post_init__(self) -> None:
        with as_value_errors():
            super().__post_init__()


class TransformedTool(MadeTool):
    """A changed copy of a tool."""

    parent_tool: Any
    transform_args: dict[str, Any] = Field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, parent: Tool, name: str | None, changes: dict[str, Any]) -> Self:
        """Return a copy with changes, the keywords of `Tool.from_tool`. Raises ValueError."""
        names = ("title", "annotations", "meta", "tags", "icons", "timeout", "auth")
        kept = {name: getattr(parent, name) for name in names}
        described = {"version": parent.version, "description": parent.description}
        fields: dict[str, Any] = {**described, **kept, **changes}
        arguments: dict[str, Any] = fields.pop("transform_args", None) or {}
        fields["fn"] = fields.pop("transform_fn", None)
        own: Any = {key: value for key, value in {"meta": parent.meta, **changes}.items() if key != "version"}
        with as_value_errors():
            transform = app_tools.ToolTransform(parent.app_tool(), name, own)
            made = transformed_tool(transform, FORM.app_class("transformed").registry, _app_types, True, None)
        fields.pop("output_schema", None)
        return cls.of_made(made, parent_tool=parent, transform_args=dict(arguments), **fields)


async def forward(**arguments: Any) -> ToolResult:
    """Call the tool that a `transform_fn` changes, with the arguments of the changed tool."""
    return ToolResult.from_mcp_result(official(await app_tools.forward(**arguments)))


async def forward_raw(**arguments: Any) -> ToolResult:
    """Call the tool that a `transform_fn` changes, with the tool's own arguments."""
    return ToolResult.from_mcp_result(official(await app_tools.forward_raw(**arguments)))


def called(result: Any) -> Any:
    """Return the result of a call of a server's own program. Raises ToolError for one that has failed."""
    if getattr(result, "is_error", False):
        raise ToolError("".join(getattr(block, "text", "") for block in result.content))
    return ToolResult.from_mcp_result(official(result)) if hasattr(result, "content") else official(result)


# ---- resources ------------------------------------------------------------------------------------------------------


class Readable(Component):
    """What resources and resource templates have. A subclass has a method `read`."""

    mime_type: str = "text/plain"

    def convert_result(self, raw_value: Any) -> ResourceResult:
        """Return what `read` has returned as a result."""
        return contents_of(raw_value, self.mime_type)


class Resource(Readable):
    """A resource."""

    uri: Any

    def model_post_init(self, context: Any, /) -> None:
        """Name the resource by its URI if it has no name."""
        self.name = self.name or str(self.uri)

    @classmethod
    def from_function(cls, fn: Any, uri: Any, **settings: Any) -> FunctionResource:
        """Return the resource of a function; `settings` are those of `@mcp.resource`. Raises ValueError."""
        name, given = marked(fn, settings.pop("name", None), settings)
        with as_value_errors():
            summary = Signature(fn, f"the resource {str(uri)!r}").summary
        fields: dict[str, Any] = {"description": summary, **given, "uri": uri}
        return FunctionResource(fn=fn, name=name, **fields)

    async def read(self) -> Any:
        """Return the content."""
        raise NotImplementedError("Subclasses must implement read()")

    def to_mcp_resource(self, **overrides: Any) -> Any:
        """Return the resource of a list of the protocol."""
        return _t.Resource(**self.wire(overrides, uri=str(self.uri), mime_type=self.mime_type))

    def registered(self) -> tuple[str, Callable[..., Any], dict[str, Any]]:
        """Return the URI, the function and the keywords of `FastMCP.add_resource`."""

        async def read() -> Any:
            return self.convert_result(await self.read()).to_mcp_result(self.uri)

        return str(self.uri), read, self.settings("mime_type", "annotations")


class FunctionResource(Resource):
    """The resource of a function."""

    fn: Any

    async def read(self) -> Any:
        """Return what the function returns."""
        return await Signature(self.fn, f"the resource {str(self.uri)!r}").call(context(), {})


class ResourceTemplate(Readable):
    """A resource template."""

    uri_template: str
    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])
    security: Any = INHERIT_SECURITY
    list_params: frozenset[str] = Field(default=frozenset(), exclude=True)

    @staticmethod
    def from_function(fn: Any, uri_template: str, name: str | None = None, **settings: Any) -> FunctionResourceTemplate:
        """Return the template of a function; `settings` are those of `@mcp.resource`. Raises ValueError."""
        security = settings.pop("security", INHERIT_SECURITY)
        name, given = marked(fn, name, settings)
        check_function(fn, "resource templates")
        with as_value_errors():
            signature = Signature(fn, f"the resource {uri_template!r}", given.pop("run_in_thread", None))
            schema = signature.schema()
        lists = check_variables(uri_template, schema)
        fields: dict[str, Any] = {"uri_template": uri_template, "parameters": schema, "list_params": lists}
        fields |= {"description": signature.summary, "security": security, **given}
        return FunctionResourceTemplate(fn=fn, name=name, **fields)

    def matches(self, uri: str) -> dict[str, Any] | None:
        """Return the values of a URI; None if it does not match."""
        return match_uri_template(uri, self.uri_template, self.list_params)

    async def read(self, arguments: dict[str, Any]) -> Any:
        """Return the content."""
        raise NotImplementedError("Subclasses must implement read() or override create_resource()")

    async def create_resource(self, uri: str, params: dict[str, Any]) -> Resource:
        """Return the resource of a URI with these values."""

        async def read() -> Any:
            return await self.read(params)

        names = (*_WIRE, "mime_type", "tags", "meta")
        return FunctionResource(fn=read, uri=uri, **{name: getattr(self, name) for name in names})

    def to_mcp_template(self, **overrides: Any) -> Any:
        """Return the template of a list of the protocol."""
        fields = {"uri_template": self.uri_template, "mime_type": self.mime_type}
        return _t.ResourceTemplate(**self.wire(overrides, **fields))


class FunctionResourceTemplate(ResourceTemplate):
    """The resource template of a function."""

    fn: Any

    async def read(self, arguments: dict[str, Any]) -> Any:
        """Return what the function returns for these values. Raises ValueError for a value that does not fit."""
        signature = Signature(self.fn, f"the resource {self.uri_template!r}")
        try:
            values = signature.read(arguments, True)
        except ValidationError as error:
            for item in error.errors(include_url=False):
                if (text := _WRONG.get(item["type"])) is not None:
                    raise ValueError(text.format(name=item["loc"][0], value=item["input"])) from error
            raise
        return await signature.call(context(), values)

    def registered(self) -> tuple[str, Callable[..., Any], dict[str, Any]]:
        """Return the URI, the function and the keywords of `FastMCP.add_resource`."""
        return self.uri_template, self.fn, self.settings("mime_type", "annotations")


# ---- prompts --------------------------------------------------------------------------------------------------------


class Prompt(Component):
    """A prompt. A subclass has a method `render`."""

    arguments: list[Any] | None = None

    @classmethod
    def from_function(cls, fn: Any, name: str | None = None, **settings: Any) -> FunctionPrompt:
        """Return the prompt of a function; `settings` are those of `@mcp.prompt`. Raises ValueError."""
        name, given = marked(fn, name, settings)
        check_function(fn, "prompts")
        with as_value_errors():
            made = AppPrompt(fn, name, {}, _app_types, None).definition
        fields: dict[str, Any] = {"description": made.description, **given}
        return FunctionPrompt(fn=fn, name=name, arguments=official(made.arguments or []), **fields)

    async def render(self, arguments: dict[str, Any] | None = None) -> Any:
        """Return the messages."""
        raise NotImplementedError("Subclasses must implement render()")

    def to_mcp_prompt(self, **overrides: Any) -> Any:
        """Return the prompt of a list of the protocol."""
        fields = self.wire(overrides, arguments=self.arguments or [])
        return _t.Prompt(**{name: value for name, value in fields.items() if name != "annotations"})


class FunctionPrompt(Prompt):
    """The prompt of a function."""

    fn: Any

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Call the function with validated arguments. Raises ValidationError for a missing one, and PromptError."""
        given, declared = arguments or {}, self.arguments or []
        if missing := {item.name for item in declared if item.required} - given.keys():
            raise ArgumentsError(f"Missing required arguments: {missing}")
        made = AppPrompt(self.fn, self.name, {}, _app_types, None)
        known = {item.name: given[item.name] for item in declared if item.name in given}
        try:
            result = official(await made.get(context(), known, (_app_types.GetPromptResult,)))
        except (JSONRPCError, InvalidMessageError) as error:
            raise PromptError(f"Error rendering prompt {self.name}: {error}") from error
        return PromptResult(result.messages, result.description, result.meta)

    def registered(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function and the keywords of `FastMCP.add_prompt`."""
        return self.fn, self.settings()
