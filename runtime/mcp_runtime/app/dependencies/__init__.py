"""Dependencies: parameters of tools, prompts and resources whose values are computed on the server."""

from typing import TYPE_CHECKING

from ..._lazy import lazy_module

if TYPE_CHECKING:
    from .current import get_access_token as get_access_token
    from .current import get_context as get_context
    from .current import get_http_headers as get_http_headers
    from .current import get_http_request as get_http_request
    from .current import get_server as get_server
    from .injected import CurrentAccessToken as CurrentAccessToken
    from .injected import CurrentContext as CurrentContext
    from .injected import CurrentFastMCP as CurrentFastMCP
    from .injected import CurrentHeaders as CurrentHeaders
    from .injected import CurrentRequest as CurrentRequest
    from .injected import TokenClaim as TokenClaim
    from .markers import CallArgument as CallArgument
    from .markers import Depends as Depends
    from .markers import Elicit as Elicit
    from .markers import ListRoots as ListRoots
    from .markers import Resolve as Resolve
    from .markers import Sample as Sample
    from .progress_counter import Progress as Progress
    from .shared_values import Shared as Shared

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
    "CurrentAccessToken": "injected",
    "CurrentContext": "injected",
    "CurrentHeaders": "injected",
    "CurrentRequest": "injected",
    "Depends": "markers",
    "Elicit": "markers",
    "ListRoots": "markers",
    "Resolve": "markers",
    "Sample": "markers",
    "Progress": "progress_counter",
    "Shared": "shared_values",
    "TokenClaim": "injected",
    "CurrentFastMCP": "injected",
    "get_access_token": "current",
    "get_context": "current",
    "get_http_headers": "current",
    "get_http_request": "current",
    "get_server": "current",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
