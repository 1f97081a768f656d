"""The OAuth clients of the official SDK, on `mcp_generated.auth.OAuthClientProvider`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import urlencode

import httpx2
from pydantic import BaseModel

from mcp_products.auth.client.grants import AuthorizationCode, ClientCredentials, JWTAssertion, TokenRequest
from mcp_products.auth.client.provider import OAuthClientProvider
from mcp_products.auth.client.storage import InMemoryTokenStorage, OAuthClientInformation, OAuthToken, StoredCredentials
from mcp_products.auth.client.token_endpoint import ASSERTION_TYPE, signed_assertion
from mcp_products.auth.discovery import AuthorizationServerMetadata
from mcp_products.auth.http import AuthHTTPClient
from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import AuthorizationError, LocalError

from .auth import OAuthClientInformationFull, OAuthClientMetadata, OfficialOAuthToken

Redirect = Callable[[str], Awaitable[None]]
Callback = Callable[[], Awaitable[Any]]


class OAuthFlowError(AuthorizationError):
    """Raised if no access token could be obtained."""


class OAuthTokenError(OAuthFlowError):
    """Raised if a login or the token endpoint gives no access token."""


class OAuthRegistrationError(OAuthFlowError):
    """Raised if the client cannot be registered."""


class OfficialTokenStorage(Protocol):
    """A storage of the token and the registered client for one server."""

    async def get_tokens(self) -> OfficialOAuthToken | None:
        """Return the stored token."""

    async def set_tokens(self, tokens: OfficialOAuthToken) -> None:
        """Store a token."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registered client."""

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the registered client."""


class StorageAdapter(InMemoryTokenStorage):
    """Stores credentials in a storage of the official SDK, which has neither the issuer nor the time of expiry: while
    the process runs, the memory has them."""

    def __init__(self, storage: OfficialTokenStorage, metadata: OAuthClientMetadata) -> None:
        super().__init__()
        self._storage = storage
        self._metadata = metadata
        self._is_deleted = False

    async def load(self, server: str) -> StoredCredentials | None:
        """Return the credentials for a server, if there are any."""
        if (credentials := await super().load(server)) is not None or self._is_deleted:
            return credentials
        client, token = await self._storage.get_client_info(), await self._storage.get_tokens()
        if client is None or client.client_id is None or token is None:
            return None
        own = OAuthToken(token.access_token, scopes=_scopes(token.scope), refresh_token=token.refresh_token)
        return StoredCredentials(client.issuer or "", client_information(client), own)

    async def save(self, server: str, credentials: StoredCredentials | None) -> None:
        """Store the credentials for a server; None deletes them."""
        await super().save(server, credentials)
        self._is_deleted = credentials is None
        if credentials is None:
            return
        client = credentials.client
        names = ("client_id", "client_secret", "token_endpoint_auth_method")
        fields: dict[str, Any] = self._metadata.model_dump() | {name: getattr(client, name) for name in names}
        fields["issuer"] = credentials.issuer
        await self._storage.set_client_info(OAuthClientInformationFull.model_construct(None, **fields))
        if credentials.token is not None:
            await self._storage.set_tokens(_to_official(credentials.token))


@dataclass(kw_only=True)
class ScopedGrant:
    """The part of a grant that requests scopes of its own where the server names none."""

    scopes: tuple[str, ...] = ()

    async def token_request_form(
        self, http: AuthHTTPClient, request: TokenRequest, client: OAuthClientInformation
    ) -> Mapping[str, str]:
        """Return the parameters of the token request."""
        grant: Any = super()
        scoped = request if request.scopes else replace(request, scopes=self.scopes)
        return dict(await grant.token_request_form(http, scoped, client))


@dataclass
class StoredClientGrant(ScopedGrant, AuthorizationCode):
    """The authorization code grant with the scope of the client's metadata, for a client that its storage may have."""

    storage: OfficialTokenStorage | None = field(default=None, repr=False)

    async def client_for(
        self, http: AuthHTTPClient, issuer: AuthorizationServerMetadata, previous: OAuthClientInformation | None
    ) -> OAuthClientInformation:
        """Return the client of the storage, if it is one of this authorization server; else register one."""
        stored = None if self.storage is None else await self.storage.get_client_info()
        if stored is not None and stored.client_id is not None and stored.issuer in (None, issuer.issuer):
            return client_information(stored)
        try:
            return await super().client_for(http, issuer, previous)
        except AuthorizationError as error:
            raise OAuthRegistrationError(str(error)) from error


@dataclass
class ScopedClientCredentials(ScopedGrant, ClientCredentials):
    """The client credentials grant with scopes of its own, and with an assertion of the client if it has no secret."""

    assertion: Callable[[str], Awaitable[str]] | None = field(default=None, repr=False)

    async def token_request_form(
        self, http: AuthHTTPClient, request: TokenRequest, client: OAuthClientInformation
    ) -> Mapping[str, str]:
        """Return the parameters of the token request."""
        form = await super().token_request_form(http, request, client)
        if self.assertion is None:
            return form
        assertion = await self.assertion(request.issuer.issuer)
        return {**form, "client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}


@dataclass
class OAuthContext:
    """What an OAuth client was made of."""

    server_url: str
    client_metadata: OAuthClientMetadata
    storage: OfficialTokenStorage = field(repr=False)


class OfficialProvider(OAuthClientProvider):
    """An OAuth client whose errors are those of the official SDK.

    Attributes:
        context: What the client was made of.
    """

    def __init__(self, context: OAuthContext, grant: Any, issuers: tuple[str, ...] = ()) -> None:
        """Create the client."""
        storage = StorageAdapter(context.storage, context.client_metadata)
        super().__init__(context.server_url, grant, storage=storage, issuers=issuers)
        self.context = context

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with a token. Raises OAuthFlowError if there is none to be had."""
        flow: Any = super().async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except OAuthFlowError:
            raise
        except AuthorizationError as error:
            raise OAuthTokenError(str(error)) from error
        finally:
            await flow.aclose()


class OfficialOAuthClientProvider(OfficialProvider):
    """Authorizes the requests to one MCP server: a user logs in."""

    def __init__(
        self,
        server_url: str,
        client_metadata: OAuthClientMetadata,
        storage: OfficialTokenStorage,
        redirect_handler: Redirect | None = None,
        callback_handler: Callback | None = None,
        timeout: float = 300.0,
        client_metadata_url: str | None = None,
    ) -> None:
        """Create the client of one MCP server.

        Args:
            server_url: URL of the MCP server.
            client_metadata: How the client registers itself.
            storage: Where the token and the client are stored.
            redirect_handler: Called with the URL to open in a browser.
            callback_handler: Returns the code and the state of the redirect, or an `AuthorizationCodeResult`.
            timeout: Seconds the user has to log in.
            client_metadata_url: The `https` URL of the client's metadata document.

        Raises LocalError without a handler or a redirect URI.
        """
        if redirect_handler is None or callback_handler is None or not client_metadata.redirect_uris:
            raise LocalError(
                "OAuthClientProvider: a login needs redirect_handler=…, callback_handler=… and redirect_uris in"
                " client_metadata; use ClientCredentialsOAuthProvider for a program without a user"
            )
        redirect_uri = str(client_metadata.redirect_uris[0])
        grant = StoredClientGrant(
            _login(redirect_handler, callback_handler, redirect_uri),
            redirect_uri,
            client_name=client_metadata.client_name or "MCP client",
            client_metadata_url=client_metadata_url,
            timeout=timeout,
            storage=storage,
            scopes=_scopes(client_metadata.scope),
        )
        super().__init__(OAuthContext(server_url, client_metadata, storage), grant)


class ClientCredentialsOAuthProvider(OfficialProvider):
    """Authorizes the requests to one MCP server: a program acts for itself, with a secret."""

    def __init__(
        self,
        server_url: str,
        storage: OfficialTokenStorage,
        client_id: str,
        client_secret: str | None,
        token_endpoint_auth_method: str = "client_secret_basic",
        scope: str | None = None,
        issuer: str | None = None,
        *,
        scopes: str | None = None,
        assertion_provider: Callable[[str], Awaitable[str]] | None = None,
    ) -> None:
        """Create the client of one MCP server.

        Args:
            server_url: URL of the MCP server.
            storage: Where the token is stored.
            client_id: Client identifier.
            client_secret: Client secret.
            token_endpoint_auth_method: `client_secret_basic` or `client_secret_post`.
            scope: Scopes to request if the server names none, with spaces between them.
            issuer: Issuer identifier of the authorization server; by default the one that the server names.
            scopes: The name of `scope` in 1.x.
            assertion_provider: Returns what is shown in the place of a secret, for `PrivateKeyJWTOAuthProvider`.
        """
        method = token_endpoint_auth_method
        shown = method if assertion_provider is None else "none"
        client = OAuthClientInformation(client_id, client_secret, shown, issuer=issuer)
        metadata = OAuthClientMetadata(
            redirect_uris=None,
            grant_types=["client_credentials"],
            token_endpoint_auth_method=method,
            scope=scope or scopes,
        )
        super().__init__(
            OAuthContext(server_url, metadata, storage),
            ScopedClientCredentials(client, scopes=_scopes(scope or scopes), assertion=assertion_provider),
            () if issuer is None else (issuer,),
        )


def static_assertion_provider(token: str) -> Callable[[str], Awaitable[str]]:
    """Return a function of an issuer that returns an assertion which the program has already."""

    async def provide(audience: str) -> str:
        return token

    return provide


class SignedJWTParameters(BaseModel):
    """What assertions say of a client, and the key that signs them."""

    issuer: str
    subject: str
    signing_key: str
    signing_algorithm: str = "RS256"
    lifetime_seconds: int = 300
    additional_claims: dict[str, Any] | None = None

    def create_assertion_provider(self) -> Callable[[str], Awaitable[str]]:
        """Return a function of an issuer that returns a new assertion for it."""
        client = OAuthClientInformation(
            self.subject, private_key=self.signing_key, signing_algorithm=self.signing_algorithm
        )

        async def provide(audience: str) -> str:
            claims = {"iss": self.issuer, **(self.additional_claims or {})}
            return signed_assertion(client, audience, self.lifetime_seconds, **claims)

        return provide


class PrivateKeyJWTOAuthProvider(ClientCredentialsOAuthProvider):
    """Authorizes the requests to one MCP server: a program acts for itself, with a signed assertion."""

    def __init__(
        self,
        server_url: str,
        storage: OfficialTokenStorage,
        client_id: str,
        assertion_provider: Callable[[str], Awaitable[str]],
        scope: str | None = None,
        issuer: str | None = None,
        *,
        scopes: str | None = None,
    ) -> None:
        """Create the client of one MCP server; the other arguments are those of `ClientCredentialsOAuthProvider`.

        Args:
            server_url: URL of the MCP server.
            storage: Where the token is stored.
            client_id: Client identifier.
            assertion_provider: Called with the issuer; returns an assertion, as `SignedJWTParameters` makes them.
            scope: Scopes to request if the server names none, with spaces between them.
            issuer: Issuer identifier of the authorization server; by default the one that the server names.
            scopes: The name of `scope` in 1.x.
        """
        chosen = scope or scopes
        method = "private_key_jwt"
        super().__init__(
            server_url, storage, client_id, None, method, chosen, issuer, assertion_provider=assertion_provider
        )


class IdentityAssertionOAuthProvider(OfficialProvider):
    """Authorizes the requests to one MCP server by an assertion of the user's identity provider (ID-JAG)."""

    def __init__(
        self,
        server_url: str,
        storage: OfficialTokenStorage,
        client_id: str,
        client_secret: str,
        issuer: str,
        assertion_provider: Callable[[str, str], Awaitable[str]],
        scope: str | None = None,
        *,
        token_endpoint_auth_method: str = "client_secret_post",
    ) -> None:
        """Create the client of one MCP server.

        Args:
            server_url: URL of the MCP server.
            storage: Where the token is stored.
            client_id: Client identifier.
            client_secret: Client secret.
            issuer: Issuer identifier of the authorization server.
            assertion_provider: Called with the issuer and the URL of the MCP server; returns the assertion.
            scope: Scopes to request if the server names none, with spaces between them.
            token_endpoint_auth_method: `client_secret_basic` or `client_secret_post`.
        """

        async def assertion(http: AuthHTTPClient, request: TokenRequest) -> str:
            return await assertion_provider(request.issuer.issuer, request.resource or server_url)

        client = OAuthClientInformation(client_id, client_secret, token_endpoint_auth_method, issuer=issuer)
        metadata = OAuthClientMetadata(redirect_uris=None, scope=scope)
        super().__init__(OAuthContext(server_url, metadata, storage), JWTAssertion(client, assertion), (issuer,))


def client_information(client: OAuthClientInformationFull) -> OAuthClientInformation:
    """Return a registered client of the official SDK as one of this package."""
    return OAuthClientInformation(
        client.client_id or "", client.client_secret, client.token_endpoint_auth_method, issuer=client.issuer
    )


def _login(
    redirect_handler: Redirect, callback_handler: Callback, redirect_uri: str
) -> Callable[[str], Awaitable[str]]:
    async def login(url: str) -> str:
        await redirect_handler(url)
        result: Any = await callback_handler()
        given = result.model_dump() if isinstance(result, BaseModel) else {"code": result[0], "state": result[1]}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{query}"

    return login


def _scopes(scope: str | None) -> tuple[str, ...]:
    return tuple((scope or "").split())


def _to_official(token: OAuthToken) -> OfficialOAuthToken:
    expires_in = None if token.expires_at is None else max(0, int(token.expires_at - clocks.wall()))
    return OfficialOAuthToken(
        access_token=token.access_token,
        expires_in=expires_in,
        scope=" ".join(token.scopes) or None,
        refresh_token=token.refresh_token,
    )
