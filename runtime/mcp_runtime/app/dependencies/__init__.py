"""Dependencies: parameters of tools, prompts and resources whose values are computed on the server."""

from typing import TYPE_CHECKING

from ..._lazy import lazy_module

if TYPE_CHECKING:
    from .injected import CurrentAccessToken as CurrentAccessToken
    from .injected import CurrentContext as CurrentContext
    from .injected import CurrentHeaders as CurrentHeaders
    from .injected import CurrentRequest as CurrentRequest
    from .injected import TokenClaim as TokenClaim
    from .markers import CallArgument as CallArgument
    from .markers import Depends as Depends
    from .markers import Elicit as Elicit
    from .markers import ListRoots as ListRoots
    from .markers import Resolve as Resolve
    from .markers import Sample as Sample

__all__ = [
    "CallArgument",
    "CurrentAccessToken",
    "CurrentContext",
    "CurrentHeaders",
    "CurrentRequest",
    "Depends",
    "Elicit",
    "ListRoots",
    "Resolve",
    "Sample",
    "TokenClaim",
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
    "TokenClaim": "injected",
}

__getattr__, __dir__ = lazy_module(__name__, names=_MODULES)
