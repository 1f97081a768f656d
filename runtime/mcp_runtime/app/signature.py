"""A function goes in; comes out callable with the arguments of a request, which its type hints describe and check."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, PydanticJsonSchemaWarning
from pydantic_core import CoreSchema, to_json

from ..aio.threads import WORKER_THREADS
from ..errors import LocalError
from ..protocol.models import is_list, is_object
from ..server.context import ServerContext
from .introspection import parse_docstring, pydantic_compatible

_NO_DEFAULT: Final = inspect.Parameter.empty
_ONLY_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class JsonSchema(GenerateJsonSchema):
    """JSON Schema without titles that only repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: CoreSchema, mode: Any = "validation") -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PydanticJsonSchemaWarning)  # A default that JSON cannot say is left out.
            return super().generate(schema, mode)


class Signature:
    """The parameters of a function that are arguments; one that is a context is injected, and not among them."""

    def __init__(self, function: Callable[..., Any], description: str) -> None:
        """Raises LocalError for parameters that cannot be given by name, or have types that cannot be checked."""
        self.function = function
        self.description = description
        self.is_async = inspect.iscoroutinefunction(_code_of(function))
        hints = _annotations(function, description)
        self.returns: Any = hints.get("return", Any)
        said = parse_docstring(function)
        self.summary = said.text
        self.context: str | None = None
        self.parameters: dict[str, inspect.Parameter] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if _is_context(hints.get(name)):
                self.context = name
            elif parameter.kind in _ONLY_BY_NAME:
                self.parameters[name] = parameter
            else:
                raise LocalError(
                    f"{description}: arguments come by name, which the parameter {parameter} does not allow"
                )
        self.annotations = {
            name: _with_description(hints.get(name, Any), said.parameters.get(name)) for name in self.parameters
        }
        self._keys = [(name, f"a{number}") for number, name in enumerate(self.parameters)]
        self.model = self._model()
        self._validate = self.model.__pydantic_validator__.validate_python
        self._validate_json = self.model.__pydantic_validator__.validate_json

    def _model(self) -> type[BaseModel]:
        """A model of the arguments. Its fields have names that nothing can clash with; aliases have the right ones."""
        names = {key: name for name, key in self._keys}
        fields: dict[str, Any] = {}
        for name, key in self._keys:
            default: Any = self.parameters[name].default
            fields[key] = (self.annotations[name], ... if default is _NO_DEFAULT else default)
        settings = ConfigDict(extra="forbid", alias_generator=lambda key: names[key], arbitrary_types_allowed=False)
        try:
            return create_model("Arguments", __config__=settings, **fields)
        except (PydanticSchemaGenerationError, PydanticUserError) as fault:
            raise LocalError(
                f"{self.description}: a parameter has a type that cannot be checked: {fault.message}"
            ) from None

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        schema = self.model.model_json_schema(by_alias=True, schema_generator=JsonSchema)
        schema.pop("title", None)
        schema.pop("description", None)
        schema.setdefault("properties", {})
        return schema

    def read(self, arguments: Mapping[str, Any], coerce: bool) -> dict[str, Any]:
        """The arguments as the hints have them. Raises ValidationError."""
        if coerce:
            checked = self._validate(arguments, strict=False)
        else:
            try:
                checked = self._validate(arguments, strict=True)
            except ValidationError:
                # What JSON has no type for, such as dates, comes as text: that is strict for JSON, not for Python.
                checked = self._validate_json(to_json(_integral_float(arguments)), strict=True)
        values = checked.__dict__
        return {name: values[key] for name, key in self._keys}

    def call(self, ctx: ServerContext, arguments: dict[str, Any]) -> Awaitable[Any]:
        """What the function gives, to be awaited: run in the event loop if it is an `async def`, else in a thread."""
        if self.context is not None:
            arguments[self.context] = ctx
        answer: Awaitable[Any] = self.function(**arguments) if self.is_async else self._in_thread(arguments)
        return answer

    async def _in_thread(self, arguments: dict[str, Any]) -> Any:
        answer = await WORKER_THREADS.run(partial(self.function, **arguments))
        return await answer if inspect.isawaitable(answer) else answer


def function_name(function: Callable[..., Any]) -> str:
    """What a function is called; nothing for an object that can be called."""
    name: object = getattr(function, "__name__", "")
    return str(name)


def _code_of(function: Callable[..., Any]) -> Any:
    """The function itself, behind partial applications and objects that can be called."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _annotations(function: Callable[..., Any], description: str) -> dict[str, Any]:
    try:
        hints = get_type_hints(_code_of(function), include_extras=True)
    except (NameError, TypeError) as fault:
        raise LocalError(f"{description}: a type hint cannot be read: {fault}") from None
    return {name: pydantic_compatible(hint) for name, hint in hints.items()}


def _is_context(annotation: Any) -> bool:
    kinds = (annotation, *get_args(annotation)) if annotation is not None else ()
    return any(isinstance(kind, type) and issubclass(kind, ServerContext) for kind in kinds)


def _with_description(hint: Any, text: str | None) -> Any:
    """The hint with the docstring's text, which a description of its own goes before."""
    if text is None:
        return hint
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        if any(isinstance(each, FieldInfo) and each.description for each in metadata):
            return hint
        return Annotated[(inner, Field(description=text), *metadata)]
    return Annotated[hint, Field(description=text)]


def _integral_float(value: Any) -> Any:
    """The value with 5.0 as 5: to JSON Schema it is an integer."""
    if is_object(value):
        return {name: _integral_float(each) for name, each in value.items()}
    if is_list(value):
        return [_integral_float(each) for each in value]
    return int(value) if type(value) is float and value.is_integer() else value
