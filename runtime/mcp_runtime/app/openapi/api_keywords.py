"""The keywords of `App.from_fastapi`, for type checkers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..serving.typed_keywords import NamedKeywords
from .route_maps import RouteMap, RouteMapFunction


class OpenAPIKeywords(NamedKeywords, total=False):
    """The keywords of `App.from_openapi(…)` besides the document, the client and the name."""

    route_maps: Sequence[RouteMap] | None
    route_map_fn: RouteMapFunction | None
    mcp_names: Mapping[str, str] | None
    tags: set[str] | None
    validate_output: bool
    encoded_slashes: Mapping[str, Collection[str]] | None
