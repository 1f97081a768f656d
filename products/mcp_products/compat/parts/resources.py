"""Resources and templates of the official SDK as objects that a program reads itself."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypedDict, Unpack

import anyio.to_thread

from mcp_products.app import resources as own
from mcp_runtime.errors import JSONRPCError, LocalError

from ..components import func_metadata
from ..forms.errors import ResourceError
from ..forms.form import FORM
from ..forms.inspection import called, content_of, described, find_context_parameter, inject_context, validated
from ..lowlevel import HandlerURI
from ..uri_templates import UriTemplate
from ..values import contains_path_traversal, is_absolute_path


@dataclass(kw_only=True)
class Resource(own.ResourceSource, ABC):
    """The base class of resources: subclasses have an async method `read`."""

    def __post_init__(self) -> None:
        try:
            super().__post_init__()
        except LocalError as error:
            raise ValueError(f"Path must be absolute: {error}") from None
        self.uri = HandlerURI(self.uri) if FORM.is_v1 else self.uri
        self.name = self.name or str(self.uri)

    @abstractmethod
    async def read(self) -> str | bytes:
        """Return the content."""


def _read_by(source: Any, what: str) -> Any:
    """Return the class of a resource of an app with an async `read`; in 1.x its errors name what is read."""

    async def read(self: Any) -> Any:
        try:
            return content_of(await called_in_thread(source.read, self))
        except Exception as error:
            if not FORM.is_v1:
                raise
            raise ValueError(f"Error reading {what.format(**vars(self))}: {error}") from error

    made = {name: getattr(source, name) for name in ("__init__", "__eq__", "__repr__", "__doc__")}
    made |= {"read": read, "__module__": __name__}
    return type(source.__name__, (Resource, source), made)


async def called_in_thread(read: Callable[[Any], Any], resource: Any) -> Any:
    """Return what a method of a resource returns; a plain one runs in a worker thread."""
    value = await anyio.to_thread.run_sync(read, resource)
    return await value if inspect.isawaitable(value) else value


TextResource = _read_by(own.TextResource, "resource {uri}")
BinaryResource = _read_by(own.BinaryResource, "resource {uri}")
FileResource = _read_by(own.FileResource, "file {path}")
DirectoryResource = _read_by(own.DirectoryResource, "directory {path}")
HttpResource = _read_by(own.HttpResource, "resource {uri}")


class DescribedKeywords(TypedDict, total=False):
    """What describes a resource besides its name and its title."""

    description: str | None
    mime_type: str | None
    icons: Sequence[Any] | None
    annotations: Any
    meta: Mapping[str, Any] | None


@dataclass(kw_only=True)
class FunctionResource(Resource):
    """A resource whose content a function returns."""

    fn: Callable[[], Any]

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        uri: str,
        name: str | None = None,
        title: str | None = None,
        **settings: Unpack[DescribedKeywords],
    ) -> FunctionResource:
        """Return the resource of a function.

        Raises ValueError for a lambda without a name.
        """
        return cls(uri=uri, fn=validated(fn), title=title, **described(fn, name, settings))

    async def read(self) -> str | bytes:
        """Return the content. Raises ValueError for a function that fails, in 1.x."""
        try:
            value = await called(self.fn, {})
        except Exception as error:
            if not FORM.is_v1:
                raise
            raise ValueError(f"Error reading resource {self.uri}: {error}") from error
        if type(value).__name__ == "InputRequiredResult":
            raise ValueError("static resources cannot return InputRequiredResult: a template can")
        return await value.read() if isinstance(value, Resource) else content_of(value)


@dataclass(frozen=True)
class ResourceSecurity:
    """Which values of the parameters of a template are refused."""

    reject_path_traversal: bool = True
    reject_absolute_paths: bool = True
    reject_null_bytes: bool = True
    exempt_params: Set[str] = field(default_factory=frozenset[str])

    def validate(self, params: Mapping[str, str | Sequence[str]]) -> str | None:
        """Return the name of the first parameter whose value is refused; None without one."""
        for name, value in params.items():
            values = [value] if isinstance(value, str) else value
            if name not in self.exempt_params and any(map(self._refuses, values)):
                return name
        return None

    def _refuses(self, value: str) -> bool:
        return (
            (self.reject_null_bytes and "\0" in value)
            or (self.reject_path_traversal and contains_path_traversal(value))
            or (self.reject_absolute_paths and is_absolute_path(value))
        )


DEFAULT_RESOURCE_SECURITY = ResourceSecurity()


class ResourceSecurityError(ValueError):
    """A parameter of a template has a value that is refused."""


class UnexpectedResourceError(ResourceError):
    """The function of a resource has failed by an error that nobody has raised on purpose."""


@dataclass(kw_only=True)
class ResourceTemplate:
    """A function as the template of resources."""

    uri_template: str
    name: str
    fn: Callable[..., Any]
    parameters: dict[str, Any]
    title: str | None = None
    description: str | None = None
    mime_type: str = "text/plain"
    icons: list[Any] | None = None
    annotations: Any = None
    meta: dict[str, Any] | None = None
    context_kwarg: str | None = None
    security: ResourceSecurity = DEFAULT_RESOURCE_SECURITY

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        uri_template: str,
        name: str | None = None,
        title: str | None = None,
        context_kwarg: str | None = None,
        **settings: Any,
    ) -> ResourceTemplate:
        """Return the template of a function; `settings` are the fields of the template.

        Raises ValueError for a lambda without a name, and InvalidUriTemplate.
        """
        context = context_kwarg or find_context_parameter(fn)
        arguments = func_metadata(fn, () if context is None else (context,), False).arg_model
        keywords = described(fn, name, settings)
        own: dict[str, Any] = {"uri_template": uri_template, "title": title, "context_kwarg": context}
        made = cls(fn=validated(fn), parameters=arguments.model_json_schema(), **own, **keywords)
        UriTemplate.parse(uri_template)
        return made

    @cached_property
    def parsed_template(self) -> UriTemplate:
        """The template, parsed."""
        return UriTemplate.parse(self.uri_template)

    def matches(self, uri: str) -> dict[str, Any] | None:
        """Return the parameters in a URI; None for a URI of another form.

        Raises ResourceSecurityError for a value that is refused; in 1.x all values are taken.
        """
        found = self.parsed_template.match(uri)
        if found is not None and not FORM.is_v1 and (name := self.security.validate(found)) is not None:
            raise ResourceSecurityError(f"Parameter {name!r} of {self.uri_template!r} failed security validation")
        return None if found is None else dict(found)

    async def create_resource(self, uri: str, params: dict[str, Any], context: Any = None) -> Any:
        """Return the resource of a URI, or the `InputRequiredResult` that the function has returned.

        Raises ResourceError for a function that fails; in 1.x ValueError.
        """
        try:
            value = await called(self.fn, inject_context(self.fn, params, context, self.context_kwarg))
        except JSONRPCError:
            raise
        except Exception as error:
            if FORM.is_v1:
                raise ValueError(f"Error creating resource from template: {error}") from error
            raise UnexpectedResourceError(f"Error creating resource from template {uri}") from error
        if type(value).__name__ == "InputRequiredResult":
            return value
        shared = {item.name for item in fields(Resource)} & vars(self).keys()
        return FunctionResource(uri=uri, fn=lambda: value, **{name: getattr(self, name) for name in shared})
