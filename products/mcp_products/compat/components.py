"""Objects of functions of the official SDK: tools, prompts and resources that a program makes itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict, create_model

from mcp_products.app.resources import ResourceSource
from mcp_runtime.errors import JSONRPCError, ToolError

from .forms.form import FORM


class ArgModelBase(BaseModel):
    """The base of models of arguments."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    def model_dump_one_level(self) -> dict[str, Any]:
        """Return the values of the fields, by the names of the function's parameters, as they are."""
        fields = type(self).model_fields
        return {info.alias or name: getattr(self, name) for name, info in fields.items()}


class FuncMetadata(BaseModel):
    """The arguments of a function as a model, and the schema of its result."""

    arg_model: Any
    output_schema: dict[str, Any] | None = None
    output_model: Any = None
    wrap_output: bool = False

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return validated arguments. Raises ValidationError."""
        model: ArgModelBase = self.arg_model.model_validate(given)
        return model.model_dump_one_level()


def func_metadata(
    func: Callable[..., Any], skip_names: Any = (), structured_output: bool | None = None
) -> FuncMetadata:
    """Return the metadata of a function, without the parameters whose names are skipped."""
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(func, eval_str=True).parameters.items():
        hint = Any if parameter.annotation is parameter.empty else parameter.annotation
        if name not in skip_names:
            fields[name] = (hint, ... if parameter.default is parameter.empty else parameter.default)
    return FuncMetadata(arg_model=create_model(f"{func.__name__}Arguments", __base__=ArgModelBase, **fields))


def context_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that gets the context; None without one."""
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind = getattr(parameter.annotation, "__origin__", parameter.annotation)
        if isinstance(kind, type) and "Context" in (base.__name__ for base in kind.__mro__):
            return name
    return None


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
        title: str | None = None,
        description: str | None = None,
        context_kwarg: str | None = None,
        *,
        annotations: Any = None,
        icons: list[Any] | None = None,
        meta: dict[str, Any] | None = None,
        structured_output: bool | None = None,
    ) -> Tool:
        """Return the tool of a function. Raises ValueError for a lambda without a name."""
        name = name or fn.__name__
        if name == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        context = context_kwarg or context_parameter(fn)
        metadata = func_metadata(fn, () if context is None else (context,))
        return cls(
            fn=fn,
            name=name,
            title=title,
            description=description or inspect.getdoc(fn) or "",
            parameters=metadata.arg_model.model_json_schema(),
            fn_metadata=metadata,
            is_async=inspect.iscoroutinefunction(fn),
            context_kwarg=context,
            annotations=annotations,
            icons=icons,
            meta=meta,
        )

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The schema of structured content."""
        return self.fn_metadata.output_schema

    async def run(self, arguments: dict[str, Any], context: Any = None, convert_result: bool = False) -> Any:
        """Call the function with validated arguments. Raises ToolError for what it raises."""
        own = {} if self.context_kwarg is None else {self.context_kwarg: context}
        try:
            value = self.fn(**self.fn_metadata.arguments(arguments), **own)
            return await value if inspect.isawaitable(value) else value
        except JSONRPCError:
            raise
        except Exception as error:
            raise ToolError(f"Error executing tool {self.name}: {error}") from error

    def registered(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        """Return the function and the keywords of `App.add_tool`."""

        async def call(arguments: dict[str, Any]) -> Any:
            return await self.run(arguments)

        keywords = {
            "title": self.title,
            "description": self.description,
            "annotations": self.annotations,
            "icons": self.icons,
            "meta": self.meta,
            "input_schema": self.parameters,
        }
        return call, {name: value for name, value in keywords.items() if value is not None}


class SourceKeywords(TypedDict, total=False):
    """The keywords of a resource; see `ResourceSource`."""

    name: str | None
    title: str | None
    description: str | None
    mime_type: str
    icons: Sequence[Any] | None
    annotations: Any
    meta: Mapping[str, Any] | None
    tags: Collection[str]
    version: str | None


def no_content() -> str:
    """Return an empty text."""
    return ""


@dataclass(kw_only=True)
class FunctionResource(ResourceSource):
    """A resource whose content a function returns."""

    fn: Callable[[], Any] = no_content

    @classmethod
    def from_function(cls, fn: Callable[..., Any], uri: str, **settings: Unpack[SourceKeywords]) -> FunctionResource:
        """Return the resource of a function; `settings` are those of a resource. Raises ValueError for a lambda without
        a name."""
        given: dict[str, Any] = {key: value for key, value in settings.items() if value is not None}
        name = given.pop("name", None) or fn.__name__
        if name == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        return cls(uri=uri, name=name, description=given.pop("description", None) or fn.__doc__ or "", fn=fn, **given)

    async def read(self) -> Any:
        """Return the content."""
        value = self.fn()
        return await value if inspect.isawaitable(value) else value


@dataclass(kw_only=True)
class Prompt:
    """A function as a prompt, for `add_prompt`."""

    fn: Callable[..., Any]
    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[Any] | None = None
    icons: list[Any] | None = None

    _of: ClassVar[str] = "prompt"

    @classmethod
    def from_function(cls, fn: Callable[..., Any], name: str | None = None, **settings: Any) -> Prompt:
        """Return the prompt of a function."""
        metadata = func_metadata(fn, (context_parameter(fn),))
        fields = metadata.arg_model.model_fields
        arguments = [FORM.types.PromptArgument(name=key, required=info.is_required()) for key, info in fields.items()]
        description = settings.pop("description", None) or inspect.getdoc(fn) or ""
        return cls(fn=fn, name=name or fn.__name__, description=description, arguments=arguments, **settings)


Resource = ResourceSource
