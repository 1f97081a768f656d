"""Keywords of the official SDK and of FastMCP, and what to write instead of those that have another name here.

A row is only read for a keyword that the function does not have: when a function gets a keyword under the name that
stands here, its row does nothing and can go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

# A word is the name of the keyword here; a sentence is the advice itself. Of two, the word if the function has it.
_DECORATORS: Final = {
    "structured": "structured_output",
    "fn": "pass the function first, without a keyword",
    "func": "pass the function first, without a keyword",
    "auth": "use scopes=[…] for the OAuth scopes that it needs",
    "scope": "scopes",
    "mimeType": "mime_type",
    "inputSchema": "input_schema",
    "outputSchema": "output_schema",
    "parameters": "input_schema",
    "icon": "icons",
    "_meta": "meta",
    "exclude_args": "leave out the parameter, or annotate it with Context",
    "serializer": "return the text itself",
    "enabled": "call app.disable(names={…}) for what clients shall not see",
    "uri": 'write @app.resource("scheme://path")',
    "uri_template": "pass the URI template first, without a keyword",
    "security": "paths are always checked: leave it out",
}
_SERVING: Final = {
    "log_level": "call logging.basicConfig(level=…)",
    "show_banner": "there is no banner: leave it out",
    "mount_path": "path",
    "streamable_http_path": "path",
    "uvicorn_config": "uvicorn",
    "allowed_hosts": "hosts",
    "allowed_origins": "origins",
    "transport_security": "use hosts=[…] and origins=[…]",
    "cors": "origins",
    "max_request_body_size": "use limits=HTTPLimits(max_body=…)",
    "session_idle_timeout": "use limits=HTTPLimits(session_idle_timeout=…)",
    "max_sessions": "use limits=HTTPLimits(max_sessions=…)",
    "retry_interval": "use limits=HTTPLimits(retry_interval=…)",
    "middleware": "wrap the application that asgi() returns",
    "ssl_keyfile": 'use uvicorn={"ssl_keyfile": …}',
    "ssl_certfile": 'use uvicorn={"ssl_certfile": …}',
    "workers": 'use uvicorn={"workers": …}',
    "reload": 'use uvicorn={"reload": …}',
}
_AT_RUN: Final = 'pass it to run("http", {}) or asgi()'
_APP: Final = {
    "tools": "decorate the functions with @app.tool",
    "prompts": "decorate the functions with @app.prompt",
    "resources": 'decorate the functions with @app.resource("scheme://path")',
    "strict_input_validation": "arguments are validated strictly: use coerce=True to convert them",
    "list_page_size": "page_size",
    "mask_error_details": "errors are masked: name those to show in tool_errors=(…)",
    "request_state_security": "keys",
    "auth": _AT_RUN.format("auth=ResourceServer(…)"),
    "token_verifier": _AT_RUN.format("auth=ResourceServer(…)"),
    "auth_server_provider": "serve an AuthorizationServer of mcp_generated.auth beside it",
    "transport_security": _AT_RUN.format("hosts=[…], origins=[…]"),
    "subscriptions": "ctx.notify_resource_updated(…) and its kin notify all clients of the process: leave it out",
    "resource_security": "paths are always checked: leave it out",
    "extensions": "use @app.tool(task=True) and app.skills(…)",
    "cache_expiration_seconds": "cache_hints",
    "warn_on_duplicate_tools": "a name that is in use is always refused: leave it out",
    "warn_on_duplicate_resources": "a URI that is in use is always refused: leave it out",
    "warn_on_duplicate_prompts": "a name that is in use is always refused: leave it out",
    "include_tags": "call app.enable(tags={…}, only=True)",
    "exclude_tags": "call app.disable(tags={…})",
}
_FUNCTION: Final = "use Client(target, {}=…) of mcp_generated, or override the method {} in a subclass of this Client"
_CLIENT: Final[Mapping[str, str | tuple[str, str]]] = {
    **dict.fromkeys(
        ("sampling_handler", "sampling_callback", "on_create_message"),
        ("sampling", _FUNCTION.format("sampling", "on_create_message")),
    ),
    **dict.fromkeys(
        ("elicitation_handler", "elicitation_callback", "on_elicit"),
        ("elicitation", _FUNCTION.format("elicitation", "on_elicit")),
    ),
    **dict.fromkeys(
        ("log_handler", "logging_callback", "on_logging_message"),
        ("on_log", _FUNCTION.format("on_log", "on_logging_message")),
    ),
    **dict.fromkeys(
        ("roots_handler", "list_roots_callback", "on_list_roots"),
        ("roots", _FUNCTION.format("roots", "on_list_roots")),
    ),
    "elicitation": _FUNCTION.format("elicitation", "on_elicit"),
    "sampling": _FUNCTION.format("sampling", "on_create_message"),
    "on_log": _FUNCTION.format("on_log", "on_logging_message"),
    "progress_handler": ("on_progress", "use on_progress=… in the request"),
    "progress_callback": ("on_progress", "use on_progress=… in the request"),
    "message_handler": ("on_message", "override its on_… methods in a subclass of Client"),
    "read_timeout_seconds": ("timeout", "use timeout=… in the request, or connect_options=RequestOptions(timeout=…)"),
    "init_timeout": ("connect_timeout", "use connect_options=RequestOptions(timeout=…)"),
    "connect_options": ("connect_timeout", "use connect_options=RequestOptions(timeout=…)"),
    "input_required_max_rounds": ("max_rounds", "use Client(target, max_rounds=…) of mcp_generated"),
    "mode": 'use revisions="handshake" or "modern" of Client(target), or a list of ids',
    "prior_discover": "the versions that revisions=[…] leaves out are not tried: leave it out",
    "raise_exceptions": "errors of handlers go to on_error: leave it out",
    "sampling_capabilities": 'use capabilities={"sampling": {…}}',
    "transport": "pass the target first, without a keyword",
    "client_info": "use name=… and version=…",
    "headers": "use http=HTTPOptions(headers={…})",
    "auth": "use http=HTTPOptions(auth=…)",
    "token": ("auth", 'use http=HTTPOptions(headers={"Authorization": …})'),
    "verify": "use http=HTTPOptions(tls=…)",
    "proxy": "use http=HTTPOptions(proxy=…)",
    "command": 'pass the words of the command first: Client.stdio("python", "server.py")',
    "args": 'pass the words of the command first: Client.stdio("python", "server.py")',
    "params": 'pass the words of the command first: Client.stdio("python", "server.py")',
    "revision": "revisions",
    "protocol_version": "revisions",
    "environ": "env",
    "errlog": "stderr",
    "log_file": "stderr",
}
_MOUNT: Final = {"namespace": "prefix", "server": "app", "as_proxy": "mount App.proxy(app)"}
_REQUEST: Final = {
    "read_timeout_seconds": "timeout",
    "timeout_seconds": "timeout",
    "progress_callback": "on_progress",
    "progress_handler": "on_progress",
    "args": "arguments",
    "params": "arguments",
    "tool_name": "name",
    "raise_on_error": "test `is_error` of the result",
}
_GROUPS: Final[Mapping[str, Mapping[str, str | tuple[str, str]]]] = {
    **dict.fromkeys(
        ("tool", "prompt", "resource", "completion", "middleware", "add_tool", "add_prompt", "add_resource"),
        _DECORATORS,
    ),
    **dict.fromkeys(("FastMCP", "MCPServer"), _APP),
    "mount": _MOUNT,
    **dict.fromkeys(("run", "asgi", 'run("stdio")', "asgi_app"), _SERVING),
    **dict.fromkeys(("stdio", "http", "memory", "connect", "Client", "SyncClient"), _CLIENT),
}


def advice(function: str, keyword: str, names: Sequence[str]) -> str | None:
    """Return what to write instead of a keyword of another SDK; None if it has no row, or its row names no keyword."""
    text = _rows(function).get(keyword)
    if isinstance(text, tuple):
        text = text[0] if text[0] in names else text[1]
    if text is None:
        return None
    if text.isidentifier():
        return f"use {text!r}" if text in names else None
    return text


def _rows(function: str) -> Mapping[str, str | tuple[str, str]]:
    """Return the rows of a function: those of its name, else of its class."""
    name = function.rpartition(".")[2]
    if name in _GROUPS:
        return _GROUPS[name]
    return _APP if name.endswith("App") else _CLIENT if name.endswith("Client") else _REQUEST
