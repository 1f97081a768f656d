"""The endpoints of an authorization server. A provider of the program decides and stores; what is checked here is what
every server has to check."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from uuid import uuid4

from pydantic import AnyUrl, BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from mcp_products.auth.authorization_server.clients import METHODS, read_registration
from mcp_products.auth.authorization_server.models import CODE, REFRESH
from mcp_products.auth.authorization_server.requests import Fields, matches_challenge
from mcp_runtime.aio import clock as clocks

from .. import auth
from ..forms.form import FORM
from . import messages
from .messages import NO_STORE, AuthenticationError, ClientAuthenticator, PydanticJSONResponse, fields_of

_log: Final = logging.getLogger("mcp_runtime.compat.auth_server")
_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="token endpoint"'}

Client = auth.OAuthClientInformationFull
Provider = auth.OAuthAuthorizationServerProvider[Any, Any, Any]


@dataclass
class MetadataHandler:
    """Serves a document: the metadata of the server, or of a protected resource."""

    metadata: BaseModel

    async def handle(self, request: Request) -> Response:
        """Return the document, which may be kept for an hour."""
        return PydanticJSONResponse(self.metadata, headers={"Cache-Control": "public, max-age=3600"})


@dataclass
class AuthorizationHandler:
    """The authorization endpoint (https://www.rfc-editor.org/rfc/rfc6749#section-3.1)."""

    provider: Provider

    async def handle(self, request: Request) -> Response:
        """Return the redirect that the provider asks for. Errors go to the redirect URI of a client that is known and
        has registered it; else they are shown."""
        target: AnyUrl | None = None
        fields: Fields = {}
        try:
            fields = await fields_of(request)
            client = await self._client(fields)
            if client is not None:
                given = fields.get("redirect_uri")
                target = client.validate_redirect_uri(None if given is None else AnyUrl(given))
            url = await self._authorize(client, target, fields)
            return RedirectResponse(url, 302, headers=NO_STORE)
        except messages.REFUSALS as error:
            answer = messages.refusal(error, _invalid(error))
        except HTTPException:  # The body is too long.
            raise
        except Exception:
            _log.exception("the provider of the authorization server failed")
            answer = {"error": "server_error", "error_description": "An unexpected error occurred"}
        if "state" in fields:
            answer["state"] = fields["state"]
        if target is None:
            return JSONResponse(answer, 400, headers=NO_STORE)
        return RedirectResponse(auth.construct_redirect_uri(str(target), **answer), 302, headers=NO_STORE)

    async def _client(self, fields: Fields) -> Client | None:
        if "client_id" not in fields:
            return None
        client = await self.provider.get_client(fields["client_id"])
        if client is None:
            raise auth.AuthorizeError("invalid_request", f"Client ID '{fields['client_id']}' not found")
        return client

    async def _authorize(self, client: Client | None, target: AnyUrl | None, request: Fields) -> str:
        asked = messages.AuthorizationRequest.model_validate(request)
        assert client is not None, "a valid request has a client_id"
        asks = {name: getattr(asked, name) for name in ("state", "code_challenge", "resource")}
        given, scopes = asked.redirect_uri is not None, client.validate_scope(asked.scope)
        params = {"scopes": scopes, "redirect_uri": target, "redirect_uri_provided_explicitly": given}
        return await self.provider.authorize(client, auth.AuthorizationParams.model_validate(asks | params))


def _invalid(error: Any) -> str:
    """Return the code of a request that is not valid."""
    errors = error.errors() if hasattr(error, "errors") else ()
    is_other = any(item["loc"] == ("response_type",) and item["type"] == "literal_error" for item in errors)
    return "unsupported_response_type" if is_other else "invalid_request"


class _Endpoint:
    invalid: ClassVar[str] = "invalid_request"
    unauthorized: ClassVar[str] = "unauthorized_client"

    async def handle(self, request: Request) -> Response:
        """Answer a request; what is refused gets 401 for a client that is not authenticated, else 400."""
        try:
            return await self.answer(request)
        except AuthenticationError as error:
            body = {"error": self.unauthorized, "error_description": error.message}
            return JSONResponse(body, 401, headers=NO_STORE | _CHALLENGE)
        except messages.REFUSALS as error:
            return JSONResponse(messages.refusal(error, self.invalid), 400, headers=NO_STORE)

    async def answer(self, request: Request) -> Response:
        """Answer a request. Raises what it is refused with."""
        raise NotImplementedError


@dataclass
class RegistrationHandler(_Endpoint):
    """The registration endpoint (https://www.rfc-editor.org/rfc/rfc7591#section-3)."""

    provider: Provider
    options: auth.ClientRegistrationOptions

    invalid: ClassVar[str] = "invalid_client_metadata"

    async def answer(self, request: Request) -> Response:
        """Register a client, with a secret unless it is a public one."""
        metadata = auth.OAuthClientMetadata.model_validate(read_registration(await request.body()))
        metadata.token_endpoint_auth_method = metadata.token_endpoint_auth_method or "client_secret_post"
        if metadata.scope is None and self.options.default_scopes is not None:
            metadata.scope = " ".join(self.options.default_scopes)
        if problem := self._problem(metadata):
            raise auth.RegistrationError(self.invalid, problem)
        now, seconds = int(clocks.wall()), self.options.client_secret_expiry_seconds
        secret = None if metadata.token_endpoint_auth_method == "none" else secrets.token_hex(32)
        expires = None if secret is None else (now + seconds if seconds else 0)
        made = {"client_id": str(uuid4()), "client_id_issued_at": now}
        given = {"client_secret": secret, "client_secret_expires_at": expires}
        client = Client.model_validate(metadata.model_dump() | made | given)
        await self.provider.register_client(client)
        return PydanticJSONResponse(client, 201, headers=NO_STORE)

    def _problem(self, metadata: auth.OAuthClientMetadata) -> str | None:
        """Return why a client cannot be registered; None if it can."""
        grants, method, valid = metadata.grant_types, metadata.token_endpoint_auth_method, self.options.valid_scopes
        asked = () if valid is None else (metadata.scope or "").split()
        unknown = sorted({*asked}.difference(valid or ()))
        assertion = f"'{auth.JWT_BEARER_GRANT_TYPE}'; the identity-assertion grant requires a pre-registered client"
        problems = {
            f"Requested scopes are not valid: {', '.join(unknown)}": bool(unknown),
            f"token_endpoint_auth_method '{method}' is not supported": method not in METHODS,
            "grant_types must be authorization_code and refresh_token": FORM.is_v1 and not {CODE, REFRESH} <= {*grants},
            "grant_types must include 'authorization_code'": CODE not in grants,
            f"grant_types must not include {assertion}": auth.JWT_BEARER_GRANT_TYPE in grants,
            "response_types must include 'code' for authorization_code grant": "code" not in metadata.response_types,
        }
        return next((text for text, is_one in problems.items() if is_one), None)


@dataclass
class TokenHandler(_Endpoint):
    """The token endpoint (https://www.rfc-editor.org/rfc/rfc6749#section-3.2)."""

    provider: Provider
    client_authenticator: ClientAuthenticator
    identity_assertion_enabled: bool = False

    unauthorized: ClassVar[str] = "unauthorized_client" if FORM.is_v1 else "invalid_client"  # That of RFC 6749.

    async def answer(self, request: Request) -> Response:
        """Return a token."""
        client = await self.client_authenticator.authenticate_request(request)
        asked = messages.token_request_adapter.validate_python(await fields_of(request))
        if asked.grant_type not in client.grant_types:
            reason = f"Unsupported grant type (supported grant types are {client.grant_types})"
            raise auth.TokenError("unsupported_grant_type", reason)
        if isinstance(asked, messages.AuthorizationCodeRequest):
            token = await self._redeem(client, asked)
        elif isinstance(asked, messages.RefreshTokenRequest):
            token = await self._refresh(client, asked)
        else:
            token = await self._assert(client, asked)
        return PydanticJSONResponse(token, headers=NO_STORE)

    async def _redeem(self, client: Client, asked: messages.AuthorizationCodeRequest) -> Any:
        code = await self.provider.load_authorization_code(client, asked.code)
        if code is None or code.client_id != asked.client_id:
            raise auth.TokenError("invalid_grant", "authorization code does not exist")
        if code.expires_at < clocks.wall():
            raise auth.TokenError("invalid_grant", "authorization code has expired")
        expected = str(code.redirect_uri) if code.redirect_uri_provided_explicitly else None
        if (None if asked.redirect_uri is None else str(asked.redirect_uri)) != expected:
            raise auth.TokenError("invalid_request", "redirect_uri did not match the one used when creating auth code")
        if not matches_challenge(code.code_challenge, asked.code_verifier):
            raise auth.TokenError("invalid_grant", "incorrect code_verifier")
        return await self.provider.exchange_authorization_code(client, code)

    async def _refresh(self, client: Client, asked: messages.RefreshTokenRequest) -> Any:
        token = await self.provider.load_refresh_token(client, asked.refresh_token)
        if token is None or token.client_id != asked.client_id:
            raise auth.TokenError("invalid_grant", "refresh token does not exist")
        if token.expires_at and token.expires_at < clocks.wall():
            raise auth.TokenError("invalid_grant", "refresh token has expired")
        scopes = asked.scope.split(" ") if asked.scope else token.scopes
        for scope in scopes:
            if scope not in token.scopes:
                raise auth.TokenError("invalid_scope", f"cannot request scope `{scope}` not provided by refresh token")
        return await self.provider.exchange_refresh_token(client, token, scopes)

    async def _assert(self, client: Client, asked: messages.JwtBearerRequest) -> Any:
        if not self.identity_assertion_enabled:
            reason = "The JWT bearer grant is not supported by this authorization server"
            raise auth.TokenError("unsupported_grant_type", reason)
        if not client.client_secret:
            raise auth.TokenError("unauthorized_client", "The JWT bearer grant requires a confidential client")
        scopes = asked.scope.split(" ") if asked.scope else None
        params = auth.IdentityAssertionParams(assertion=asked.assertion, scopes=scopes, resource=asked.resource)
        return await self.provider.exchange_identity_assertion(client, params)


@dataclass
class RevocationHandler(_Endpoint):
    """The revocation endpoint (https://www.rfc-editor.org/rfc/rfc7009#section-2)."""

    provider: Provider
    client_authenticator: ClientAuthenticator

    async def answer(self, request: Request) -> Response:
        """Revoke a token of the client. For a token that is unknown, or of another client, nothing is to be done."""
        client = await self.client_authenticator.authenticate_request(request)
        asked = messages.RevocationRequest.model_validate(await fields_of(request))
        token: Any = None
        if asked.token_type_hint != "refresh_token":
            token = await self.provider.load_access_token(asked.token)
        token = token or await self.provider.load_refresh_token(client, asked.token)
        token = token or await self.provider.load_access_token(asked.token)
        if token is not None and token.client_id == client.client_id:
            await self.provider.revoke_token(token)
        return Response(headers=NO_STORE)
