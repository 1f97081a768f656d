"""What a protected endpoint says of itself, and to whom: its metadata, and the challenges that lead to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from support.auth.resource_server import PROTECTED, Authority, challenge, endpoint
from support.endpoints import ALL_REVISIONS, Rev, among, before, clause, since

from mcp_generated import App
from mcp_products.auth.discovery import protected_resource_metadata_urls, read_protected_resource_metadata
from mcp_products.auth.http import URLPolicy
from mcp_products.auth.resource_server.dpop import DPoPVerifier
from mcp_products.auth.resource_server.protection import ResourceServer
from mcp_runtime.errors import LocalError

WITH_RESOURCE_METADATA = since("2025-06-18", ALL_REVISIONS)
WELL_KNOWN = "/.well-known/oauth-protected-resource"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


@among(WITH_RESOURCE_METADATA)
@clause("draft/authorization/06", "draft/authorization/10", "draft/authorization/11", "draft/authorization/12")
async def test_the_metadata_is_where_the_challenge_and_the_path_say_and_is_what_a_client_reads(
    rev: Rev, issuer: Authority
) -> None:
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name], scopes=["read"], name="Notes")) as at:
        params = challenge(await at.first(None))
        assert params["resource_metadata"] == protected_resource_metadata_urls(at.url, None)[0]
        for url in protected_resource_metadata_urls(
            at.url, params["resource_metadata"]
        ) + protected_resource_metadata_urls(at.url, None):
            answer = await at.http.get(url)
            assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
            assert answer.headers["access-control-allow-origin"] == "*"
            metadata = read_protected_resource_metadata(json.loads(answer.content), at.url, URLPolicy(local=True))
            assert (metadata.resource, metadata.authorization_servers, metadata.scopes_supported) == (
                at.url,
                (issuer.name,),
                ("read",),
            )
            assert json.loads(answer.content)["bearer_methods_supported"] == ["header"]
        assert (await at.http.post(url, json={})).status_code == 405
        for path in ("/other", "/mcp/more", "x"):
            assert (await at.http.get(str(httpx2.URL(at.url).join(WELL_KNOWN)) + path)).status_code == 404


@among(before("2025-06-18", PROTECTED))
async def test_a_revision_without_the_metadata_has_none_and_does_not_speak_of_it(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name])) as at:
        answer = await at.first(None)
        assert answer.status_code == 401 and "resource_metadata" not in challenge(answer)
        for url in protected_resource_metadata_urls(at.url, None):
            assert (await at.http.get(url)).status_code == 404


@among(WITH_RESOURCE_METADATA)
async def test_each_refusal_says_where_the_metadata_is(rev: Rev, issuer: Authority) -> None:
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name], scopes=["read"])) as at:
        bad = [
            await at.first("garbage"),
            await at.first(None, authorization="Bearer"),
            await at.first(issuer.token(at.url)),
        ]
        assert [answer.status_code for answer in bad] == [401, 400, 403]
        assert {challenge(answer)["resource_metadata"] for answer in bad} == {
            protected_resource_metadata_urls(at.url, None)[0]
        }


async def test_an_endpoint_inside_another_application_has_its_metadata_below_itself(issuer: Authority) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    resource = "https://example.com/apps/mcp"
    app: Any = App("x").asgi(auth=ResourceServer(resource, [issuer.name]), hosts=["example.com"])
    web = Starlette(routes=[Mount("/apps/mcp", app)])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(web), base_url="https://example.com") as http:
        where = challenge(await http.post("/apps/mcp/", json={}))["resource_metadata"]
        assert where == f"{resource}{WELL_KNOWN}"
        assert (await http.get(where)).json()["resource"] == resource
    await app.close()


async def test_an_application_without_a_path_has_its_metadata_where_it_says_wherever_it_is_served(
    issuer: Authority,
) -> None:
    resource = "https://example.com/mcp"
    app: Any = App("x").asgi(auth=ResourceServer(resource, [issuer.name]), hosts=["example.com"])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="https://example.com") as http:
        where = challenge(await http.post("/mcp", json={}))["resource_metadata"]
        for url in (where, *protected_resource_metadata_urls(resource, None)):
            assert (await http.get(url)).json()["resource"] == resource
        assert (await http.get(f"/other{WELL_KNOWN}")).status_code == 401
    await app.close()


async def test_a_stranger_reads_no_metadata(issuer: Authority) -> None:
    async with endpoint(WITH_RESOURCE_METADATA[-1], lambda url: ResourceServer(url, [issuer.name])) as at:
        answer = await at.http.get(protected_resource_metadata_urls(at.url, None)[0], headers={"host": "evil.example"})
        assert answer.status_code in (400, 403, 421) and issuer.name not in answer.text


def test_proofs_of_possession_are_announced() -> None:
    document = json.loads(
        ResourceServer("https://a.example/mcp", ["https://b.example"], dpop=DPoPVerifier(required=True)).document()
    )
    assert (
        document["dpop_bound_access_tokens_required"] is True
        and "ES256" in document["dpop_signing_alg_values_supported"]
    )


@pytest.mark.parametrize(
    ("resource", "issuers"),
    [
        ("https://a.example/mcp", []),
        ("/mcp", ["https://b.example"]),
        ("https://a.example/mcp#x", ["https://b.example"]),
        ("http://a.example/mcp", ["https://b.example"]),
        ("https://u:p@a.example/mcp", ["https://b.example"]),
        ("https://a.example/mcp", ["http://b.example"]),
        ("https://a.example/mcp", ["b.example"]),
        ('https://a.example/"mcp', ["https://b.example"]),
    ],
)
@clause("draft/authorization/11")
def test_what_cannot_be_announced_is_refused_at_once(resource: str, issuers: list[str]) -> None:
    with pytest.raises(LocalError):
        ResourceServer(resource, issuers)
