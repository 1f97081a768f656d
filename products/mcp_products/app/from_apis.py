"""The constructors of apps from APIs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from mcp_runtime._lazy import load
from mcp_runtime.errors import LocalError

if TYPE_CHECKING:
    from mcp_products.openapi.apps import OpenAPIKeywords, RouteMap, RouteMapFunction

    from .settings import NamedKeywords


class FromAPIs:
    """The part of an app that makes apps from OpenAPI documents and FastAPI applications."""

    @classmethod
    def from_openapi(
        cls,
        openapi_spec: Mapping[str, Any] | str | os.PathLike[str],
        client: Any = None,
        name: str | None = None,
        *,
        route_maps: Sequence[RouteMap] | None = None,
        route_map_fn: RouteMapFunction | None = None,
        mcp_names: Mapping[str, str] | None = None,
        tags: set[str] | None = None,
        validate_output: bool = True,
        encoded_slashes: Mapping[str, Collection[str]] | None = None,
        **settings: Unpack[NamedKeywords],
    ) -> Self:
        """Create an app whose tools and resources are the operations of an HTTP API. It reads the document, and blocks.

        Arguments of tools never leave the path of their operation. A response without success is an error result.

        Args:
            openapi_spec: A document of OpenAPI 3.0 or 3.1: a dict, a path, a URL or a text.
            client: An `httpx2.AsyncClient` with the base URL of the API and the headers that it needs. By default one
                for the first server of the document.
            name: The name of the app; by default the title of the API.
            route_maps: Rules that decide what an operation becomes; the first that applies counts. By default all
                operations become tools.
            route_map_fn: Called with the operation and its type; returns another `MCPType`, or None to keep it.
            mcp_names: Names of tools and resources by operationId.
            tags: Tags of all tools and resources.
            validate_output: Whether responses are validated against the schemas of the document.
            encoded_slashes: The path parameters whose values may have slashes, which are sent as `%2F`: names by
                operationId, by a line such as "GET /projects/{id}", or by "*" for all operations. By default a slash is
                refused, because many servers and proxies read `%2F` as a slash.
            settings: The other keywords of `App`.

        Raises LocalError for an invalid document or client, and TypeError for an unknown keyword.
        """
        converted = _converted_apps()
        document, _ = loaded = converted.load_document(openapi_spec)
        make: Any = cls
        app = make(name or converted.title_of(document), **settings)
        converted.add_operations(
            app,
            loaded,
            client,
            route_maps=route_maps or (),
            route_map_fn=route_map_fn,
            mcp_names=mcp_names,
            tags=tags,
            validate_output=validate_output,
            encoded_slashes=encoded_slashes,
        )
        return cast(Self, app)

    @classmethod
    def from_fastapi(
        cls,
        app: Any,
        name: str | None = None,
        *,
        httpx_client_kwargs: Mapping[str, Any] | None = None,
        client: None = None,
        **settings: Unpack[OpenAPIKeywords],
    ) -> Self:
        """Create an app whose tools and resources are the operations of a FastAPI application of this process.

        Args:
            app: The application; it is called without a socket, and its lifespan is not run.
            name: The name of the app; by default the title of the application.
            httpx_client_kwargs: Keywords of `httpx2.AsyncClient`, such as `headers`.
            client: Not for this constructor: the requests go to the application.
            settings: The other keywords of `from_openapi`.

        Raises LocalError if it is not a FastAPI application, and TypeError for an unknown keyword.
        """
        converted = _converted_apps()
        if client is not None:
            raise LocalError(
                "from_fastapi(): it has no client; write httpx_client_kwargs={…}, or App.from_openapi(document, client)"
            )
        document = converted.fastapi_document(app)
        return cls.from_openapi(document, converted.fastapi_client(app, httpx_client_kwargs or {}), name, **settings)


def _converted_apps() -> Any:
    """Return the module that makes apps, which an extra installs. Raises LocalError without it."""
    return load("mcp_products.openapi.apps")
