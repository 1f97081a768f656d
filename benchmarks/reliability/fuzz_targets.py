"""What fuzz.py gives bytes to: a function for each target, its seeds, and the errors that it documents."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from joserfc import jwk, jwt

from mcp_codegen.errors import CodegenError
from mcp_codegen.importer.importer import as_official
from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse
from mcp_generated import v2025_11_25, v2026_07_28
from mcp_products.app.components.uris import URITemplate
from mcp_products.auth.discovery import read_authorization_server_metadata, read_protected_resource_metadata
from mcp_products.auth.http import URLPolicy
from mcp_products.auth.resource_server.verifiers import JWTVerifier, read_key
from mcp_products.fast.heads import CachedRequestHeadParser
from mcp_products.host.resources import expand, variables_of
from mcp_runtime.errors import AuthorizationError, JSONRPCError, LocalError
from mcp_runtime.http.origins import OriginPolicy
from mcp_runtime.http.server_rules import (
    RequestHead,
    ServedRevisions,
    check_stateless,
    classify,
    resume_position,
)
from mcp_runtime.http.sse import OversizedEventError, SSEDecoder
from mcp_runtime.protocol import jsonrpc
from mcp_runtime.protocol.framing import LineDecoder, OversizedMessage, SizeLimit

SERVER: Final = "https://mcp.example/mcp"
ISSUER: Final = "https://as.example"
NOW: Final = 1_800_000_000.0
PACKAGES: Final = (v2025_11_25, v2026_07_28)


class Target(NamedTuple):
    """A function that takes any bytes, and raises nothing but its documented errors."""

    run: Callable[[bytes], object]
    errors: tuple[type[Exception], ...]
    seeds: Sequence[bytes]


def read_jsonrpc(data: bytes) -> None:
    """Decode a message or a batch; what is not a message is a MalformedMessage."""
    message = jsonrpc.decode(data)
    for item in message if isinstance(message, list) else [message]:
        assert isinstance(item, (*_MESSAGES, jsonrpc.MalformedMessage)), item
        if isinstance(item, jsonrpc.ResultMessage):
            jsonrpc.result(item.id, item.result)
    jsonrpc.id_of_response(data)


_MESSAGES: Final = (
    *(jsonrpc.RequestMessage, jsonrpc.NotificationMessage),
    *(jsonrpc.ResultMessage, jsonrpc.ErrorMessage),
)


def read_lines(data: bytes) -> None:
    """Split lines that arrive whole and in two parts: the messages are the same."""
    at = data[0] % (len(data) + 1) if data else 0
    parts = LineDecoder(SizeLimit(64))
    expected, seen = LineDecoder(SizeLimit(64)).feed(data), parts.feed(data[:at]) + parts.feed(data[at:])
    # Of a line beyond the limit the beginning and the end are left, as they have arrived.
    shown = [[None if isinstance(line, OversizedMessage) else line for line in lines] for lines in (expected, seen)]
    assert shown[0] == shown[1], shown


def read_events(data: bytes) -> None:
    """Read a stream that arrives whole and in two parts: the events are the same."""
    at = data[0] % (len(data) + 1) if data else 0
    whole, parts = SSEDecoder(), SSEDecoder()
    expected = [(event.data, event.id) for event in whole.feed(data)]
    seen = [(event.data, event.id) for part in (data[:at], data[at:]) for event in parts.feed(part)]
    assert seen == expected, (seen, expected)


@cache
def _served() -> tuple[ServedRevisions, CachedRequestHeadParser]:
    revisions = ServedRevisions.create({item.id: item for item in (package.Server.revision for package in PACKAGES)})
    return revisions, CachedRequestHeadParser(OriginPolicy.create(None, None), revisions)


def _head_of(data: bytes) -> RequestHead:
    first, *lines = data.split(b"\n")
    fields = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    return _served()[1].read(first.decode("latin-1"), fields)[0]


def read_head(data: bytes) -> None:
    """Read the head of an HTTP request."""
    resume_position(_head_of(data).headers)


def apply_rules(data: bytes) -> None:
    """Decide what a POST is, from its head and its body."""
    head, _, body = data.partition(b"\n\n")
    read, served = _head_of(head), _served()[0]
    message = jsonrpc.decode(body)
    classify(read, message, served)
    check_stateless(read, message, served)


def read_metadata(data: bytes) -> None:
    """Read the metadata of a protected resource, or of an authorization server, or a key."""
    document = json.loads(data)
    policy = URLPolicy()
    read_key(document)
    try:
        read_protected_resource_metadata(document, SERVER, policy)
    except AuthorizationError:
        read_authorization_server_metadata(document, ISSUER, policy)


@cache
def _verifier() -> tuple[JWTVerifier, bytes]:
    secret = jwk.generate_key("EC", "P-256", {"kid": "k"}, private=True)
    claims = {"iss": ISSUER, "aud": SERVER, "sub": "ann", "exp": int(NOW) + 900, "scope": "a b"}
    token = jwt.encode({"alg": "ES256", "kid": "k", "typ": "at+jwt"}, claims, secret).encode()
    verifier = JWTVerifier(ISSUER, audience=SERVER, clock=lambda: NOW)

    class Keys:
        async def find(self, kid: str | None, types: frozenset[str]) -> list[Any]:
            return [jwk.import_key(secret.as_dict(private=False))]

    verifier._keys = Keys()  # type: ignore[assignment]
    return verifier, token


def read_token(data: bytes) -> None:
    """Verify a token; two bytes that are not ASCII begin one whose header and claims are the rest."""
    verifier, right = _verifier()
    if data.startswith(b"\xff\xfe"):
        head, _, claims = data[2:].partition(b"\n")
        data = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (head, claims, b"x" * 64))
    try:
        verifying = verifier.verify(data.decode("latin-1"))
        verifying.send(None)
    except StopIteration as done:
        assert done.value is None or data == right, "a token without a signature was accepted"


def use_template(data: bytes) -> None:
    """Parse a template, match a URI, and expand another one."""
    template, _, uri = data.decode("utf-8", "replace").partition("\n")
    try:
        URITemplate(template).match(uri)
    finally:
        expand(template, {name: uri[:40] for name in variables_of(template)})


def import_schema(data: bytes) -> None:
    """Read a schema.ts, and compute the schema.json that the official tool makes of it."""
    as_official(normalize(parse(data.decode("utf-8", "ignore"), "schema.ts"), "2026-07-28"))


_CALL: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":[1,2.5,null,true]}}}'
)
_META: Final = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}'
)
_HEAD: Final = (
    b"POST\nHost: localhost\nContent-Type: application/json\nAccept: application/json, text/event-stream\n"
    b"MCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/call\nMcp-Name: a\nContent-Length: 12"
)
_LATER: Final = (
    b"GET\nHost: 127.0.0.1:80\nAccept: text/event-stream\nMcp-Session-Id: x\nLast-Event-ID: a_b-7\nOrigin: null"
)
_RESOURCE: Final = json.dumps(
    {"resource": SERVER, "authorization_servers": [ISSUER], "scopes_supported": ["a"]}
).encode()
_SERVER: Final = json.dumps(
    {
        "issuer": ISSUER,
        "token_endpoint": f"{ISSUER}/token",
        "authorization_endpoint": f"{ISSUER}/authorize",
        "code_challenge_methods_supported": ["S256"],
        "jwks_uri": f"{ISSUER}/jwks",
    }
).encode()
_KEY: Final = (
    b'{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",'
    b'"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}'
)
_CLAIMS: Final = json.dumps({"iss": ISSUER, "aud": [SERVER], "sub": "a", "exp": int(NOW) + 9, "nbf": 1.5}).encode()
_TYPES: Final = b"""/** A thing.
 * @category tools */
export interface Thing extends Base { "a-b": string | number; n?: number[]; kind: "x"; [key: string]: unknown; }
export interface Base { _meta?: { [key: string]: unknown } }
export type Either = Thing | Base | null;
export const LATEST = "2026-07-28";
"""
_MORE_TYPES: Final = b"""const A = -1, B = "b" as const;
type P<T> = { a: T, b?: T[] | null };
type Q = P<R>["a"] & (R | T);
interface T extends Omit<R, "c"> {}
interface R { c: typeof B; d: [string, n?: P<R>, ...Record<"x" | "y", Array<Q>>[]]; e: `v${number}`; }
/** @minimum 1
 * @TJS-type number */
type S = NonNullable<R["d"] | undefined>[] | true | 0x1F | "\\u{1F600}";
interface R { readonly f?: never; }
"""

TARGETS: Final[dict[str, Target]] = {
    "jsonrpc": Target(
        read_jsonrpc, (), [_CALL, b"[" + _CALL + b"]", b'{"jsonrpc":"2.0","id":"x","result":{"a":1e999}}']
    ),
    "framing": Target(read_lines, (), [_CALL[:50] + b"\n" + _CALL, b"\r\n\n{}\r\n"]),
    "sse": Target(
        read_events,
        (OversizedEventError,),
        [b"\xef\xbb\xbfid: 7\nevent: message\ndata: a\ndata: b\nretry: 10\n\n", b": c\r\rdata\r\n\r\nid:\0\n\n"],
    ),
    "heads": Target(read_head, (), [_HEAD, _LATER]),
    "rules": Target(
        apply_rules, (), [_HEAD + b"\n\n" + _CALL.replace(b'"arguments"', _META + b',"arguments"'), _LATER + b"\n\n[]"]
    ),
    "metadata": Target(read_metadata, (AuthorizationError, ValueError, RecursionError), [_RESOURCE, _SERVER, _KEY]),
    "jwt": Target(
        read_token,
        (),
        [_verifier()[1], b'\xff\xfe{"alg":"ES256","kid":"k","typ":"jwt"}\n' + _CLAIMS, b'\xff\xfe{"alg":"none"}\n{}'],
    ),
    "templates": Target(
        use_template,
        (LocalError, JSONRPCError),
        [b"notes://{user}/{+path}{?page,size}\nnotes://a/b/c?page=1", b"data://{a*}{/b}{;c}{&d}{#e:3}\ndata://%2e%2e/"],
    ),
    "schema": Target(import_schema, (CodegenError,), [_TYPES, _MORE_TYPES]),
}
