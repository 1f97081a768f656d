"""Dependencies: parameters of tools, prompts and resources whose values are computed on the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_module

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

__all__ = [
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
    "Shared",
    "TokenClaim",
    "get_access_token",
    "get_context",
    "get_http_headers",
    "get_http_request",
    "get_server",
]

_MODULES = {
    "CallArgument": "markers",
    "CurrentAccessToken": "markers",
    "CurrentContext": "markers",
    "CurrentHeaders": "markers",
    "CurrentRequest": "markers",
    "Depends": "markers",
    "Elicit": "markers",
    "ListRoots": "markers",
    "Resolve": "markers",
    "Sample": "markers",
    "Progress": "markers",
    "Shared": "resolution",
    "TokenClaim": "markers",
    "CurrentFastMCP": "markers",
    "get_access_token": "mcp_products.app.context.current",
    "get_context": "mcp_products.app.context.current",
    "get_http_headers": "mcp_products.app.context.current",
    "get_http_request": "mcp_products.app.context.current",
    "get_server": "mcp_products.app.context.current",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
