"""What a client of authorization refuses: URLs, metadata and answers that somebody made up."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from mcp_products.auth.client.storage import OAuthClientInformation
from mcp_products.auth.client.token_endpoint import (
    AuthorizationRequest,
    check_challenge_method,
    check_redirect_uri,
    parse_authorization_response,
    parse_challenges,
    select_scopes,
    signed_assertion,
)
from mcp_products.auth.discovery import (
    AuthorizationServerMetadata,
    DiscoveryMethod,
    authorization_server_metadata_urls,
    covers,
    protected_resource_metadata_urls,
    read_authorization_server_metadata,
    read_protected_resource_metadata,
)
from mcp_products.auth.http import URLPolicy
from mcp_runtime.errors import AuthorizationError

POLICY = URLPolicy()
AS = "https://as.example"
METADATA: dict[str, Any] = {
    "issuer": AS,
    "token_endpoint": f"{AS}/token",
    "authorization_endpoint": f"{AS}/authorize",
    "code_challenge_methods_supported": ["S256"],
}
REDIRECT = "http://127.0.0.1:7777/callback"


@pytest.mark.clause("2025-03-26/authorization/29", "draft/authorization/34")
@pytest.mark.parametrize(
    "url",
    [
        "http://as.example/token",
        "http://localhost/token",
        "https://localhost/token",
        "https://127.0.0.1/token",
        "https://[::1]/token",
        "https://[::ffff:127.0.0.1]/token",
        "https://10.0.0.1/token",
        "https://192.168.1.1/token",
        "https://169.254.169.254/latest/meta-data",
        "https://[fe80::1]/token",
        "https://[fd00::1]/token",
        "https://[64:ff9b::a00:1]/token",
        "https://[2002:a00:1::]/token",
        "https://0.0.0.0/token",
        "https://user:secret@as.example/token",
        "https://as.example/token#fragment",
        "https://as.example\\@evil.example/token",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https:///token",
        "https://as.example:port/token",
        "https://[::1/token",
        "https://as.example/a b",
    ],
)
@pytest.mark.advisory("CVE-2025-6514")
def test_an_unsafe_url_is_not_asked(url: str) -> None:
    with pytest.raises(AuthorizationError):
        POLICY.check(url)


@pytest.mark.parametrize(
    "address",
    [
        *("10.1.2.3", "127.0.0.1", "169.254.169.254", "224.0.0.1", "100.64.0.1", "192.0.0.8", "192.88.99.1", "0.0.0.0"),
        *("fd00::1", "::ffff:10.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b:1::a00:1", "fec0::1", "::"),
        *("fe80::1%eth0", "fd00:ec2::254", "3fff::1", "5f00::1", "2001::1", "no address"),
    ],
)
def test_a_name_that_leads_into_a_private_network_is_not_asked(address: str) -> None:
    with pytest.raises(AuthorizationError):
        POLICY.check_addresses(f"{AS}/token", ["93.184.216.34", address])


def test_an_origin_that_was_allowed_may_be_private_but_not_without_tls() -> None:
    policy = URLPolicy(private=frozenset({"https://10.0.0.1:8443"}))
    assert policy.check("https://10.0.0.1:8443/token")
    with pytest.raises(AuthorizationError):
        URLPolicy(private=frozenset({"http://10.0.0.1"})).check("http://10.0.0.1/token")
    with pytest.raises(AuthorizationError):
        policy.check("https://10.0.0.1:8444/token")


def test_this_machine_is_asked_where_the_server_is_on_it() -> None:
    policy = URLPolicy(local=True)
    assert policy.check("http://localhost:5000/token")
    policy.check_addresses("http://localhost:5000/token", ["127.0.0.1", "::1"])
    with pytest.raises(AuthorizationError):
        policy.check_addresses("http://localhost:5000/token", ["93.184.216.34"])


@pytest.mark.clause("2025-03-26/authorization/29", "draft/authorization/34")
@pytest.mark.parametrize(
    "change",
    [
        {"issuer": f"{AS}//"},
        {"issuer": f"{AS}/x/"},
        {"issuer": "HTTPS://as.example/"},
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"token_endpoint": None},
        {"token_endpoint": "http://as.example/token"},
        {"token_endpoint": "https://127.0.0.1/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"registration_endpoint": "https://169.254.169.254/"},
        {"token_endpoint": 7},
        {"code_challenge_methods_supported": "S256"},
    ],
)
def test_metadata_of_an_authorization_server_that_is_not_right_is_not_used(change: dict[str, Any]) -> None:
    with pytest.raises(AuthorizationError):
        read_authorization_server_metadata({**METADATA, **change}, AS, POLICY)


def test_an_issuer_goes_by_another_name_only_where_that_was_said() -> None:
    document = {**METADATA, "issuer": "https://other.example"}
    assert (
        read_authorization_server_metadata(document, AS, POLICY, ["https://other.example"]).issuer
        == "https://other.example"
    )


@pytest.mark.clause("2025-03-26/authorization/36", "draft/authorization/36")
@pytest.mark.parametrize("methods", [None, [], ["plain"]])
def test_an_authorization_server_without_s256_is_refused(methods: list[str] | None) -> None:
    issuer = read_authorization_server_metadata({**METADATA, "code_challenge_methods_supported": methods}, AS, POLICY)
    with pytest.raises(AuthorizationError, match="S256"):
        check_challenge_method(issuer)


@pytest.mark.parametrize(
    "resource",
    [
        "https://evil.example/mcp",
        "https://mcp.example.evil.example/mcp",
        "http://mcp.example/mcp",
        "https://mcp.example:444/mcp",
        "https://mcp.example/mc",
        "https://mcp.example/mcp/more",
        "https://mcp.example/mcp#x",
        "https://user@mcp.example/mcp",
        "https://mcp.example/mcp?tenant=1",
        "",
    ],
)
def test_metadata_of_another_resource_is_not_used(resource: str) -> None:
    assert not covers(resource, "https://mcp.example/mcp")
    with pytest.raises(AuthorizationError):
        read_protected_resource_metadata(
            {"resource": resource, "authorization_servers": [AS]}, "https://mcp.example/mcp", POLICY
        )


def test_the_name_of_a_resource_is_kept_byte_for_byte() -> None:
    for name in ("https://mcp.example", "https://mcp.example/", "https://MCP.example/mcp"):
        document = {"resource": name, "authorization_servers": [AS]}
        assert read_protected_resource_metadata(document, "https://mcp.example/mcp", POLICY).resource == name


@pytest.mark.parametrize("issuers", [None, [], "https://as.example", [7], ["http://as.example"], ["https://10.0.0.1"]])
def test_a_resource_names_authorization_servers_that_may_be_asked(issuers: object) -> None:
    with pytest.raises(AuthorizationError):
        read_protected_resource_metadata(
            {"resource": "https://m.example", "authorization_servers": issuers}, "https://m.example/", POLICY
        )


REQUEST = AuthorizationRequest(AuthorizationServerMetadata(AS, f"{AS}/token"), REDIRECT, "right", "verifier")
SAYING = AuthorizationRequest(
    AuthorizationServerMetadata(AS, f"{AS}/token", iss_parameter_supported=True), REDIRECT, "right", "verifier"
)


@pytest.mark.clause("draft/authorization/39")
@pytest.mark.parametrize(
    ("authorization_request", "answer"),
    [
        (REQUEST, f"{REDIRECT}?code=c"),
        (REQUEST, f"{REDIRECT}?code=c&state=wrong"),
        (REQUEST, f"{REDIRECT}?code=c&state="),
        (REQUEST, f"{REDIRECT}?code=c&code=d&state=right"),
        (REQUEST, f"{REDIRECT}?code=c&state=right&state=wrong"),
        (REQUEST, f"{REDIRECT}?state=right"),
        (REQUEST, f"{REDIRECT}?state=right&code="),
        (REQUEST, f"{REDIRECT}/more?code=c&state=right"),
        (REQUEST, "http://evil.example/callback?code=c&state=right"),
        (REQUEST, f"{REDIRECT}?code=c&state=right&iss=https://evil.example"),
        (REQUEST, f"{REDIRECT}?code=c&state=right&iss={AS}/"),
        (REQUEST, f"{REDIRECT}?code=c&state=right&iss=HTTPS://as.example"),
        (SAYING, f"{REDIRECT}?code=c&state=right"),
        (SAYING, f"{REDIRECT}?code=c&state=right&iss="),
        (REQUEST, f"{REDIRECT}?error=access_denied&state=right&code=c"),
    ],
)
def test_a_code_of_somebody_else_is_not_redeemed(authorization_request: AuthorizationRequest, answer: str) -> None:
    with pytest.raises(AuthorizationError):
        parse_authorization_response(answer, authorization_request)


def test_a_code_of_the_right_issuer_is_taken() -> None:
    assert parse_authorization_response(f"{REDIRECT}?code=c&state=right", REQUEST) == "c"
    assert (
        parse_authorization_response(f"{REDIRECT}?{urlencode({'code': 'c', 'state': 'right', 'iss': AS})}", SAYING)
        == "c"
    )


def test_what_an_error_says_is_not_repeated_unless_it_is_a_plain_word() -> None:
    with pytest.raises(AuthorizationError) as caught:
        parse_authorization_response(f"{REDIRECT}?state=right&error=%1b%5b31mpay+here", REQUEST)
    assert "pay" not in str(caught.value)
    assert "right" not in repr(REQUEST) and "verifier" not in repr(REQUEST).replace("verifier=", "")


@pytest.mark.clause("2025-03-26/authorization/31", "draft/authorization/35")
@pytest.mark.parametrize(
    "uri", ["http://app.example/cb", "javascript:1", "data:x", "https://a.example/#f", "myapp:/cb", ""]
)
def test_a_redirect_uri_that_others_can_take_is_refused(uri: str) -> None:
    with pytest.raises(AuthorizationError):
        check_redirect_uri(uri)


def test_metadata_is_looked_for_in_the_order_of_the_specification() -> None:
    well_known = "https://m.example/.well-known"
    resource = f"{well_known}/oauth-protected-resource"
    assert protected_resource_metadata_urls("https://m.example/a/mcp", None) == [f"{resource}/a/mcp", resource]
    assert protected_resource_metadata_urls("https://m.example/mcp", "https://m.example/x") == ["https://m.example/x"]
    assert authorization_server_metadata_urls("https://m.example/t", DiscoveryMethod.PROTECTED_RESOURCE_METADATA) == [
        f"{well_known}/oauth-authorization-server/t",
        f"{well_known}/openid-configuration/t",
        "https://m.example/t/.well-known/openid-configuration",
    ]
    assert authorization_server_metadata_urls("https://m.example", DiscoveryMethod.PROTECTED_RESOURCE_METADATA) == [
        f"{well_known}/oauth-authorization-server",
        f"{well_known}/openid-configuration",
    ]
    assert authorization_server_metadata_urls("https://m.example/mcp", DiscoveryMethod.SERVER_ORIGIN) == [
        f"{well_known}/oauth-authorization-server"
    ]


def test_challenges_are_read_with_quotes_and_beside_each_other() -> None:
    challenges = parse_challenges(
        'DPoP algs="ES256", Bearer error="insufficient_scope", scope="a b", realm="x, \\"y\\"=z"'
    )
    assert challenges["dpop"] == {"algs": "ES256"}
    assert challenges["bearer"] == {"error": "insufficient_scope", "scope": "a b", "realm": 'x, "y"=z'}


def test_scopes_come_from_the_challenge_then_the_resource_and_lose_nothing() -> None:
    assert select_scopes("a", ["b"], [], [], False) == ("a",)
    assert select_scopes(None, ["b", "c"], [], [], False) == ("b", "c")
    assert select_scopes(None, [], [], ["offline_access"], False) == ()
    assert select_scopes("w", ["b"], ["r"], ["offline_access"], True) == ("r", "w", "offline_access")
    assert select_scopes("w", [], [], ["w"], True) == ("w",)


# ---- keys of clients -------------------------------------------------------------------------------------------------


def pem(key: Any, *, password: bytes | None = None) -> str:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


@pytest.mark.parametrize("kind", ["RSA", "P-384", "Ed25519", "with a password", "public", "a path", "no text"])
def test_a_key_that_cannot_sign_is_refused_with_the_algorithms_of_each_kind(kind: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    text = {
        "RSA": lambda: pem(rsa.generate_private_key(65537, 2048)),
        "P-384": lambda: pem(ec.generate_private_key(ec.SECP384R1())),
        "Ed25519": lambda: pem(ed25519.Ed25519PrivateKey.generate()),
        "with a password": lambda: pem(key, password=b"secret"),
        "public": lambda: key.public_key().public_bytes(serialization.Encoding.PEM, form).decode(),
        "a path": lambda: "key.pem",
        "no text": lambda: "",
    }[kind]()
    with pytest.raises(AuthorizationError, match=r"signing_algorithm='ES256' .* RSA keys need RS256 or PS256"):
        signed_assertion(OAuthClientInformation("c", private_key=text), "https://as.example", 60)
