"""The page of `mcp-generated dev`: the tools of a server, forms for their arguments, results and views.

The page has no authentication, and is for this machine only. Text of the server is untrusted: the script inserts it as
text. A view is a document of its own in a sandbox, whose policy is not that of the page: it may run scripts, and loads
nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcp_products.app.app import BaseApp
from mcp_runtime._lazy import LazyModule
from mcp_runtime.http.origins import OriginPolicy

if TYPE_CHECKING:
    from starlette import responses, routing
else:  # Imported when they are used.
    responses = LazyModule("starlette.responses")
    routing = LazyModule("starlette.routing")

PATH: Final = "/dev"
_FILE: Final = Path(__file__).with_name("dev_page.html")
_CLIENTS: Final = ("127.0.0.1", "::1")
_POLICY: Final = OriginPolicy.create(None, None)
_HEADERS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
_VIEW_POLICY: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; media-src data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
# It becomes the document that the page sends. `srcdoc` would have the policy of the page, which runs no such scripts.
_VIEW: Final = """<!doctype html><script>
addEventListener("message", ({source, data}) => {
  if (source !== parent) return;
  document.open();
  document.write(data.html);
  document.close();
}, {once: true});
</script>"""


def settings_with_page(server: Any, endpoint: str) -> dict[str, Any]:
    """Add the page to an app; return the keywords of `run("http")` that add it to a server.

    Args:
        server: The app or the server.
        endpoint: The path of its MCP endpoint.
    """
    text = _FILE.read_text(encoding="utf-8").replace("{{endpoint}}", escape(endpoint))
    script, style = (f"'{_hash(text, tag)}'" for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; "
        "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    pages = {PATH: (text, policy), f"{PATH}/view": (_VIEW, _VIEW_POLICY)}
    handlers = {path: _handler(*page) for path, page in pages.items()}
    if not isinstance(server, BaseApp):
        return {"routes": [routing.Route(path, handler, methods=["GET"]) for path, handler in handlers.items()]}
    for path, handler in handlers.items():
        server.custom_route(path, ["GET"])(handler)
    return {}


def _handler(text: str, policy: str) -> Any:
    async def page(request: Any) -> Any:
        client = request.client.host if request.client is not None else ""
        if client not in _CLIENTS or _POLICY.check(request.headers) is not None:
            return responses.PlainTextResponse("the page is for browsers of this machine only", 403, headers=_HEADERS)
        return responses.HTMLResponse(text, headers={**_HEADERS, "content-security-policy": policy})

    return page


def _hash(text: str, tag: str) -> str:
    """Return the hash of the content of an element, as a content security policy names it."""
    [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
