"""Dependencies: parameters of tools, prompts and resources whose values are computed on the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
    from ..context.current import get_access_token as get_access_token
    from ..context.current import get_context as get_context
    from ..context.current import get_http_headers as get_http_headers
    from ..context.current import get_http_request as get_http_request
    from ..context.current import get_server as get_server
    from .markers import CallArgument as CallArgument
    from .markers import CurrentAccessToken as CurrentAccessToken
    from .markers import CurrentContext as CurrentContext
    from .markers import CurrentFastMCP as CurrentFastMCP
    from .markers import CurrentHeaders as CurrentHeaders
    from .markers import CurrentRequest as CurrentRequest
    from .markers import Depends as Depends
    from .markers import Elicit as Elicit
    from .markers import ListRoots as ListRoots
    from .markers import Progress as Progress
    from .markers import Resolve as Resolve
    from .markers import Sample as Sample
    from .markers import TokenClaim as TokenClaim
    from .resolution import Shared as Shared

__getattr__, __dir__ = lazy_members(
    __name__,
    {
        "markers": (
            "CallArgument",
            "CurrentAccessToken",
            "CurrentContext",
            "CurrentFastMCP",
            "CurrentHeaders",
            "CurrentRequest",
            "Depends",
            "Elicit",
            "ListRoots",
            "Progress",
            "Resolve",
            "Sample",
            "TokenClaim",
        ),
        "mcp_products.app.context.current": (
            "get_access_token",
            "get_context",
            "get_http_headers",
            "get_http_request",
            "get_server",
        ),
        "resolution": ("Shared",),
    },
)
