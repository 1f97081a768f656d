"""Objects of functions of the official SDK: tools, prompts and resources that a program makes itself."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import GenericAlias, UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, RootModel, WithJsonSchema, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ValidationError

from mcp_products.app.resources import ResourceSource
from mcp_runtime.errors import JSONRPCError, ToolError

from .forms.errors import ResourceError
from .forms.form import FORM, field_of
from .forms.inspection import called, described, find_context_parameter, inject_context, is_async, validated
from .forms.prompts import content_blocks, messages_of
from .words import log

Resource = ResourceSource
_MAX_LENGTH: Final = 128
_INVALID: Final = re.compile(r"[^A-Za-z0-9_.-]")
_ENDS: Final = {"-": "a dash", ".": "a dot"}


class ArgModelBase(BaseModel):
    """The base of models of arguments."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    def model_dump_one_level(self) -> dict[str, Any]:
        """Return the values of the fields, by the names of the function's parameters, as they are."""
        fields = type(self).model_fields
        return {info.alias or name: getattr(self, name) for name, info in fields.items()}


class StrictJsonSchema(GenerateJsonSchema):
    """Refuses a type without a JSON Schema."""

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Raise ValueError."""
        raise ValueError(f"JSON schema warning: {kind} - {detail}")


class InvalidSignature(Exception):  # noqa: N818 - the name of the original
    """A function that cannot be a tool."""


class UnexpectedToolError(ToolError):
    """A tool has failed by an error that nobody has raised on purpose: its text is not told."""


class FuncMetadata(BaseModel):
    """The arguments of a function as a model, and the model and the schema of its result."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    arg_model: Any
    output_schema: dict[str, Any] | None = None
    output_model: Any = None
    wrap_output: bool = False

    def validate_arguments(self, arguments_to_validate: dict[str, Any]) -> dict[str, Any]:
        """Return validated arguments, by the names of parameters. Raises ValidationError."""
        model: ArgModelBase = self.arg_model.model_validate(self.pre_parse_json(arguments_to_validate))
        return model.model_dump_one_level()

    def convert_result(self, result: Any) -> Any:
        """Return the content of what a function has returned, with its structured content if there is a schema.

        Raises ValidationError for a result that is not of the model.
        """
        if isinstance(result, FORM.types.CallToolResult):
            if self.output_model is not None:
                self.output_model.model_validate(field_of(result, "structured_content"))
            return result
        content = content_blocks(result)
        if self.output_model is None:
            return content
        value = {"result": result} if self.wrap_output else result
        validated = self.output_model.model_validate(value, from_attributes=True)
        return content, validated.model_dump(mode="json", by_alias=True)

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with the JSON text of objects and arrays parsed, but where a text is asked for."""
        hints = {info.alias or name: info.annotation for name, info in self.arg_model.model_fields.items()}
        hints |= {name: info.annotation for name, info in self.arg_model.model_fields.items()}
        return {name: _parsed(value, hints.get(name, str)) for name, value in data.items()}

    async def call_fn(
        self, fn: Any, fn_is_async: bool, arguments: dict[str, Any], arguments_to_pass_directly: Any = None
    ) -> Any:
        """Call a function with validated arguments, and with others beside them."""
        value = fn(**arguments, **(arguments_to_pass_directly or {}))
        return await value if fn_is_async else value

    async def call_fn_with_arg_validation(
        self, fn: Any, fn_is_async: bool, arguments_to_validate: Any, arguments_to_pass_directly: Any = None
    ) -> Any:
        """Call a function with arguments that are validated first. Raises ValidationError."""
        arguments = self.validate_arguments(arguments_to_validate)
        return await self.call_fn(fn, fn_is_async, arguments, arguments_to_pass_directly)


def _parsed(value: Any, hint: Any) -> Any:
    if not isinstance(value, str) or hint is str:
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return value if isinstance(parsed, (str, int, float)) else parsed  # Such a text is one: "5" may be meant as it is.


def func_metadata(
    func: Callable[..., Any], skip_names: Any = (), structured_output: bool | None = None
) -> FuncMetadata:
    """Return the metadata of a function, without the parameters whose names are skipped.

    Raises InvalidSignature for a function that cannot be a tool.
    """
    try:
        signature = inspect.signature(func, eval_str=True)
    except NameError as error:
        raise InvalidSignature(f"Unable to evaluate type annotations for callable {func.__name__!r}") from error
    fields: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if name in skip_names:
            continue
        if name.startswith("_"):
            raise InvalidSignature(f"Parameter {name} of {func.__name__} cannot start with '_'")
        hint: Any = parameter.annotation
        if hint is parameter.empty:
            hint = Annotated[Any, WithJsonSchema({"title": name, "type": "string"})]
        hides = callable(getattr(BaseModel, name, None))  # A field of this name would hide a method.
        if hides:
            hint = Annotated[hint, Field(alias=name)]
        default = parameter.default
        fields[f"field_{name}" if hides else name] = hint if default is parameter.empty else (hint, default)
    model = create_model(f"{func.__name__}Arguments", __base__=ArgModelBase, **fields)
    if structured_output is False:
        return FuncMetadata(arg_model=model)
    returned = signature.return_annotation
    _refuse_return(returned, func.__name__, structured_output)
    output, wraps = _output_model(returned, func.__name__)
    try:
        schema = None if output is None else output.model_json_schema(schema_generator=StrictJsonSchema)
    except (TypeError, ValueError, PydanticUserError):
        output, wraps, schema = None, False, None
    if schema is None and structured_output:
        raise InvalidSignature(
            f"Function {func.__name__}: return type {returned} is not serializable for structured output"
        )
    return FuncMetadata(arg_model=model, output_schema=schema, output_model=output, wrap_output=wraps)


def _refuse_return(hint: Any, name: str, structured_output: bool | None) -> None:
    """Raise InvalidSignature for a return type that cannot be one of a tool."""
    if hint is inspect.Signature.empty and structured_output:
        raise InvalidSignature(f"Function {name}: return annotation required for structured output")
    is_union = get_origin(hint) in (Union, UnionType)
    result = FORM.types.CallToolResult
    if is_union and any(isinstance(arm, type) and issubclass(arm, result) for arm in get_args(hint)):
        raise InvalidSignature(
            f"Function {name}: CallToolResult cannot be used in Union or Optional types;"
            " return CallToolResult(content=[]) for no content"
        )


def _output_model(hint: Any, name: str) -> tuple[Any, bool]:
    """Return the model of structured content, and whether it wraps the value; None for content and for no hint."""
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if isinstance(bare, type) and issubclass(bare, FORM.types.CallToolResult):
        if bare is hint:
            return None, False
        hint = bare = get_args(hint)[1]
    origin = get_origin(bare) or bare
    if hint is inspect.Signature.empty or origin in (Any, object):
        return None, False
    make: Any = create_model
    root: Any = RootModel
    if isinstance(bare, GenericAlias) and origin is dict and get_args(bare)[:1] == (str,):
        return make(f"{name}DictOutput", __base__=root[bare]), False
    if not isinstance(origin, type) or origin.__module__ in ("builtins", "collections.abc", "types"):
        return make(f"{name}Output", result=(hint, ...)), True
    if issubclass(origin, BaseModel):
        return bare, False
    declared = cast(Any, origin)
    fields = get_type_hints(declared, include_extras=True)
    if not fields:
        return None, False
    optional = getattr(declared, "__optional_keys__", ())
    defaults = {key: getattr(declared, key, None if key in optional else ...) for key in fields}
    return make(declared.__name__, **{key: (item, defaults[key]) for key, item in fields.items()}), False


@dataclass(kw_only=True)
class Tool:
    """A function as a tool, for `add_tool` and `tools=`."""

    fn: Callable[..., Any]
    name: str
    description: str
    parameters: dict[str, Any]
    fn_metadata: FuncMetadata
    is_async: bool = False
    title: str | None = None
    context_kwarg: str | None = None
    annotations: Any = None
    icons: list[Any] | None = None
    meta: dict[str, Any] | None = None

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        name: str | None = None,
        context_kwarg: str | None = None,
        structured_output: bool | None = None,
        **settings: Any,
    ) -> Tool:
        """Return the tool of a function; `settings` are the fields of the tool.

        Raises ValueError for a lambda without a name.
        """
        given = described(fn, name, settings)
        validate_and_warn_tool_name(given["name"])
        context = context_kwarg or find_context_parameter(fn)
        metadata = func_metadata(fn, () if context is None else (context,), structured_output)
        parameters = metadata.arg_model.model_json_schema()
        own = {"parameters": parameters, "fn_metadata": metadata, "is_async": is_async(fn), "context_kwarg": context}
        return cls(fn=fn, **own, **given)

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The schema of structured content."""
        return self.fn_metadata.output_schema

    async def run(self, arguments: dict[str, Any], context: Any = None, convert_result: bool = False) -> Any:
        """Call the function with validated arguments. Raises ToolError for what it raises."""
        own = {} if self.context_kwarg is None else {self.context_kwarg: context}
        failure = f"Error executing tool {self.name}"
        try:
            value = await called(self.fn, self.fn_metadata.validate_arguments(arguments) | own)
            return self.fn_metadata.convert_result(value) if convert_result else value
        except JSONRPCError:
            raise
        except (ToolError, ValidationError, ResourceError) as error:
            raise ToolError(f"{failure}: {error}") from error
        except Exception as error:
            raise (ToolError(f"{failure}: {error}") if FORM.is_v1 else UnexpectedToolError(failure)) from error

    def registered(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function and the keywords of `App.add_tool`."""

        async def call(arguments: dict[str, Any]) -> Any:
            return await self.run(arguments)

        names = ("name", "title", "description", "annotations", "icons", "meta")
        keywords = {name: value for name in names if (value := getattr(self, name)) is not None}
        return call, {**keywords, "input_schema": self.parameters}


@dataclass(kw_only=True)
class Prompt:
    """A function as a prompt, for `add_prompt`."""

    fn: Callable[..., Any]
    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[Any] | None = None
    icons: list[Any] | None = None
    context_kwarg: str | None = None

    @classmethod
    def from_function(cls, fn: Callable[..., Any], name: str | None = None, **settings: Any) -> Prompt:
        """Return the prompt of a function. Raises ValueError for a lambda without a name."""
        context = settings.pop("context_kwarg", None) or find_context_parameter(fn)
        schema = func_metadata(fn, (context,), False).arg_model.model_json_schema()
        arguments = [
            FORM.types.PromptArgument(
                name=key, description=item.get("description"), required=key in schema.get("required", ())
            )
            for key, item in schema.get("properties", {}).items()
        ]
        return cls(fn=fn, arguments=arguments, context_kwarg=context, **described(fn, name, settings))

    async def render(self, arguments: dict[str, Any] | None = None, context: Any = None) -> Any:
        """Return the messages of the prompt. Raises ValueError for a missing argument and for a function that fails."""
        given = arguments or {}
        missing = {item.name for item in self.arguments or () if item.required} - given.keys()
        if missing:
            raise ValueError(f"Missing required arguments: {missing}")
        try:
            value = await called(validated(self.fn), inject_context(self.fn, given, context, self.context_kwarg))
            return value if type(value).__name__ == "InputRequiredResult" else messages_of(value)
        except JSONRPCError:
            raise
        except Exception as error:
            told = f": {error}" if FORM.is_v1 else ""
            raise ValueError(f"Error rendering prompt {self.name}{told}") from error


# The checks of the names of tools, whose warnings do not refuse a name:
# https://modelcontextprotocol.io/specification/draft/server/tools#tool-names


@dataclass
class ToolNameValidationResult:
    """Whether a name is one of the specification, and what speaks against it."""

    is_valid: bool
    warnings: list[str] = field(default_factory=list[str])


def validate_tool_name(name: str) -> ToolNameValidationResult:
    """Return what speaks against the name of a tool."""
    if not name:
        return ToolNameValidationResult(False, ["Tool name cannot be empty"])
    if len(name) > _MAX_LENGTH:
        reason = f"Tool name exceeds maximum length of {_MAX_LENGTH} characters (current: {len(name)})"
        return ToolNameValidationResult(False, [reason])
    warnings = [f"Tool name starts or ends with {text}" for end, text in _ENDS.items() if end in (name[0], name[-1])]
    if wrong := [*dict.fromkeys(_INVALID.findall(name))]:
        warnings.append(f"Tool name contains invalid characters: {', '.join(map(repr, wrong))}")
    return ToolNameValidationResult(not wrong, warnings)


def issue_tool_name_warning(name: str, warnings: Sequence[str]) -> None:
    """Log what speaks against the name of a tool; nothing without a reason."""
    if warnings:
        reasons = "\n".join(f"  - {warning}" for warning in warnings)
        log.warning(
            'Tool name validation warning for "%s" (SEP-986):\n%s\nTool registration will proceed', name, reasons
        )


def validate_and_warn_tool_name(name: str) -> bool:
    """Return True for a name of the specification; the log has what speaks against a name."""
    result = validate_tool_name(name)
    issue_tool_name_warning(name, result.warnings)
    return result.is_valid
