"""Function signatures: the JSON Schema of the parameters, and calls with validated arguments."""

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
from ..usage.defaults import check_defaults
from .introspection import parse_docstring, pydantic_compatible

_NO_DEFAULT: Final = inspect.Parameter.empty
_ONLY_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class JsonSchema(GenerateJsonSchema):
    """A generator of JSON Schemas without titles that repeat the property names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: CoreSchema, mode: Any = "validation") -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PydanticJsonSchemaWarning)  # Defaults without a JSON form are omitted.
            return super().generate(schema, mode)


class Signature:
    """The signature of a function. A parameter of type Context is injected; all others are arguments of requests."""

    def __init__(self, function: Callable[..., Any], description: str) -> None:
        """Inspect a function. Raises LocalError for positional-only or variadic parameters, and for unsupported
        types."""
        self.function = function
        self.description = description
        self.is_async = inspect.iscoroutinefunction(_code_of(function))
        hints = _annotations(function, description)
        self.returns: Any = hints.get("return", Any)
        docstring = parse_docstring(function)
        self.summary = docstring.text
        self.context: str | None = None
        self.parameters: dict[str, inspect.Parameter] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if _is_context(hints.get(name)):
                if self.context is not None:
                    raise LocalError(f"{description} has two contexts, {self.context!r} and {name!r}: remove one")
                self.context = name
            elif parameter.kind in _ONLY_BY_NAME:
                self.parameters[name] = parameter
            else:
                raise LocalError(f"{description}: the parameter {parameter} must accept a keyword argument")
        self.annotations = {
            name: _with_description(hints.get(name, Any), docstring.parameters.get(name)) for name in self.parameters
        }
        check_defaults(self.parameters, self.annotations, description)
        self._keys = [(name, f"a{number}") for number, name in enumerate(self.parameters)]
        self.model = self._model()
        self._validate = self.model.__pydantic_validator__.validate_python
        self._validate_json = self.model.__pydantic_validator__.validate_json

    def _model(self) -> type[BaseModel]:
        """Return a model of the arguments. The parameter names are aliases, so that they cannot clash with model
        attributes."""
        names = {key: name for name, key in self._keys}
        fields: dict[str, Any] = {}
        for name, key in self._keys:
            default: Any = self.parameters[name].default
            fields[key] = (self.annotations[name], ... if default is _NO_DEFAULT else default)
        settings = ConfigDict(extra="forbid", alias_generator=lambda key: names[key], arbitrary_types_allowed=False)
        try:
            return create_model("Arguments", __config__=settings, **fields)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            reason = " ".join(error.message.partition(". Set ")[0].split())
            raise LocalError(
                f"{self.description}: a parameter has an unsupported type: {reason}: "
                "use a JSON type, a model or a dataclass"
            ) from None

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        schema = self.model.model_json_schema(by_alias=True, schema_generator=JsonSchema)
        schema.pop("title", None)
        schema.pop("description", None)
        schema.setdefault("properties", {})
        return schema

    def read(self, arguments: Mapping[str, Any], coerce: bool) -> dict[str, Any]:
        """Validate the arguments and convert them to the types of the hints. Raises ValidationError."""
        if coerce:
            checked = self._validate(arguments, strict=False)
        else:
            try:
                checked = self._validate(arguments, strict=True)
            except ValidationError:
                # Types without a JSON type, such as dates, are strings in JSON: strict JSON mode accepts them.
                checked = self._validate_json(to_json(_integral_float(arguments)), strict=True)
        values = checked.__dict__
        return {name: values[key] for name, key in self._keys}

    def call(self, ctx: ServerContext, arguments: dict[str, Any]) -> Awaitable[Any]:
        """Call the function, and return its awaitable result. An `async def` runs in the event loop, others in a
        thread."""
        if self.context is not None:
            arguments[self.context] = ctx
        result: Awaitable[Any] = self.function(**arguments) if self.is_async else self._in_thread(arguments)
        return result

    async def _in_thread(self, arguments: dict[str, Any]) -> Any:
        result = await WORKER_THREADS.run(partial(self.function, **arguments))
        return await result if inspect.isawaitable(result) else result


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function; an empty string for a lambda and for other callables."""
    name: object = getattr(function, "__name__", "")
    return "" if name == "<lambda>" else str(name)


def _code_of(function: Callable[..., Any]) -> Any:
    """Return the function behind partial applications and callable objects."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _annotations(function: Callable[..., Any], description: str) -> dict[str, Any]:
    try:
        hints = get_type_hints(_code_of(function), include_extras=True)
    except (NameError, TypeError) as error:
        remedy = "import or define it at the top of the module"
        raise LocalError(f"{description}: a type hint cannot be evaluated: {error}; {remedy}") from None
    return {name: pydantic_compatible(hint) for name, hint in hints.items()}


def _is_context(annotation: Any) -> bool:
    kinds = (annotation, *get_args(annotation)) if annotation is not None else ()
    return any(isinstance(kind, type) and issubclass(kind, ServerContext) for kind in kinds)


def _with_description(hint: Any, text: str | None) -> Any:
    """Return the hint with the description of the docstring, unless the hint has its own description."""
    if text is None:
        return hint
    if get_origin(hint) is Annotated:
        inner, *metadata = get_args(hint)
        if any(isinstance(field, FieldInfo) and field.description for field in metadata):
            return hint
        return Annotated[(inner, Field(description=text), *metadata)]
    return Annotated[hint, Field(description=text)]


def _integral_float(value: Any) -> Any:
    """Return the value with integral floats as integers: in JSON Schema, 5.0 is an integer."""
    if is_object(value):
        return {name: _integral_float(item) for name, item in value.items()}
    if is_list(value):
        return [_integral_float(item) for item in value]
    return int(value) if type(value) is float and value.is_integer() else value
