"""The requests and the answers of an OAuth client of the official SDK, each by itself."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from functools import partial
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import from_json

from mcp_products.auth import discovery
from mcp_runtime.protocol.models import is_object

from .. import auth
from ..auth_clients import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from ..forms.callbacks import MCP_PROTOCOL_VERSION
from ..forms.form import FORM
from ..streams.bridges import http_library


class PKCEParameters(BaseModel):
    """A code verifier and its challenge (https://www.rfc-editor.org/rfc/rfc7636#section-4)."""

    code_verifier: str = Field(min_length=43, max_length=128)
    code_challenge: str = Field(min_length=43, max_length=128)

    @classmethod
    def generate(cls) -> Self:
        """Return new parameters."""
        verifier = secrets.token_urlsafe(96)
        digest = hashlib.sha256(verifier.encode()).digest()
        return cls(code_verifier=verifier, code_challenge=base64.urlsafe_b64encode(digest).decode().rstrip("="))


# ---- challenges and scopes ------------------------------------------------------------------------------------------


def extract_field_from_www_auth(response: Any, field_name: str) -> str | None:
    """Return a parameter of the challenge of a response; None without it."""
    found = re.search(rf'{field_name}=(?:"([^"]+)"|([^\s,]+))', response.headers.get("WWW-Authenticate") or "")
    return None if found is None else found[1] or found[2]


extract_scope_from_www_auth = partial(extract_field_from_www_auth, field_name="scope")
"""Returns the scopes that a challenge names; None without them."""


def extract_resource_metadata_from_www_auth(response: Any) -> str | None:
    """Return the URL of the protected resource metadata that a challenge names; None without it."""
    if response is None or response.status_code not in (401, 403):
        return None
    return extract_field_from_www_auth(response, "resource_metadata")


def get_client_metadata_scopes(
    www_authenticate_scope: str | None,
    protected_resource_metadata: auth.ProtectedResourceMetadata | None,
    authorization_server_metadata: auth.OAuthMetadata | None = None,
    client_grant_types: list[str] | None = None,
) -> str | None:
    """Return the scopes to request: those of the challenge, else of the resource, else of the authorization server.

    `offline_access` is among them if the server lists it, and the client takes refresh tokens.
    """
    offered = getattr(authorization_server_metadata, "scopes_supported", None)
    listed = getattr(protected_resource_metadata, "scopes_supported", None)
    chosen = www_authenticate_scope
    if chosen is None and (found := offered if listed is None else listed) is not None:
        chosen = " ".join(found)
    if chosen is not None and "offline_access" in (offered or ()) and "refresh_token" in (client_grant_types or ()):
        return union_scopes(chosen, "offline_access")
    return chosen


def union_scopes(previous_scope: str | None, new_scope: str | None) -> str | None:
    """Return the scopes of both texts, each once."""
    if not previous_scope or not new_scope:
        return previous_scope or new_scope
    return " ".join(dict.fromkeys([*previous_scope.split(), *new_scope.split()]))


# ---- discovery ------------------------------------------------------------------------------------------------------


def build_protected_resource_metadata_discovery_urls(www_auth_url: str | None, server_url: str) -> list[str]:
    """Return the URLs at which to look for protected resource metadata: that of the challenge first."""
    return [*([www_auth_url] if www_auth_url else ()), *discovery.protected_resource_metadata_urls(server_url, None)]


def build_oauth_authorization_server_metadata_discovery_urls(auth_server_url: str | None, server_url: str) -> list[str]:
    """Return the URLs at which to look for the metadata of an authorization server; of the MCP server itself for
    None."""
    methods = discovery.DiscoveryMethod
    method = methods.PROTECTED_RESOURCE_METADATA if auth_server_url else methods.SERVER_ORIGIN
    return discovery.authorization_server_metadata_urls(auth_server_url or server_url, method)


def create_oauth_metadata_request(url: str) -> Any:
    """Return the request for a document of metadata."""
    version = FORM.types.LATEST_PROTOCOL_VERSION
    return http_library().Request("GET", url, headers={MCP_PROTOCOL_VERSION: version})


async def _document(model: Any, response: Any) -> Any:
    """Return the document of a response; None for one that is not valid."""
    try:
        return model.model_validate_json(await response.aread())
    except ValidationError:
        return None


async def handle_protected_resource_response(response: Any) -> auth.ProtectedResourceMetadata | None:
    """Return the metadata of a response; None if it has none."""
    return await _document(auth.ProtectedResourceMetadata, response) if response.status_code == 200 else None


async def handle_auth_metadata_response(response: Any) -> tuple[bool, auth.OAuthMetadata | None]:
    """Return whether the search goes on or has ended well, and the metadata of a response if it has some."""
    if response.status_code != 200:
        return 300 <= response.status_code < 500, None
    return True, await _document(auth.OAuthMetadata, response)


issuers_match = discovery.is_same_issuer


def validate_metadata_issuer(oauth_metadata: auth.OAuthMetadata, expected_issuer: str) -> None:
    """Raise OAuthFlowError if metadata are those of another issuer
    (https://www.rfc-editor.org/rfc/rfc8414#section-3.3)."""
    found = str(oauth_metadata.issuer)
    if not (discovery.is_same_issuer(found, expected_issuer) if FORM.is_v1 else found == expected_issuer):
        raise OAuthFlowError(f"Authorization server metadata issuer mismatch: {found} != {expected_issuer}")


def validate_authorization_response_iss(iss: str | None, oauth_metadata: auth.OAuthMetadata | None) -> None:
    """Raise OAuthFlowError if the `iss` of a redirect is another issuer, or missing where the server has promised it
    (https://www.rfc-editor.org/rfc/rfc9207#section-2.4)."""
    expected = None if oauth_metadata is None else str(oauth_metadata.issuer)
    if iss is not None and iss != expected:
        raise OAuthFlowError(f"Authorization response iss mismatch: {iss} != {expected}")
    if iss is None and getattr(oauth_metadata, "authorization_response_iss_parameter_supported", None):
        raise OAuthFlowError("Authorization response missing iss parameter advertised by the authorization server")


def credentials_match_issuer(
    client_info: auth.OAuthClientInformationFull, issuer: str, client_metadata_url: str | None
) -> bool:
    """Return True if a registered client is one of this authorization server, or of all."""
    if client_metadata_url is not None and client_info.client_id == client_metadata_url:
        return True
    return client_info.issuer is None or discovery.is_same_issuer(client_info.issuer, issuer)


# ---- clients and tokens ---------------------------------------------------------------------------------------------


def create_client_registration_request(
    auth_server_metadata: auth.OAuthMetadata | None, client_metadata: auth.OAuthClientMetadata, auth_base_url: str
) -> Any:
    """Return the request that registers a client, at `/register` if the server names no endpoint."""
    endpoint = getattr(auth_server_metadata, "registration_endpoint", None)
    url = urljoin(auth_base_url, "/register") if endpoint is None else str(endpoint)
    fields = client_metadata.model_dump(by_alias=True, mode="json", exclude_none=True)
    return http_library().Request("POST", url, json=fields)


async def handle_registration_response(response: Any) -> auth.OAuthClientInformationFull:
    """Return the registered client of a response. Raises OAuthRegistrationError."""
    content = await response.aread()
    if response.status_code not in (200, 201):
        to = response.next_request and response.next_request.url.copy_with(userinfo=b"", query=None, fragment=None)
        note = f" (redirected to {to}; not followed)" if to else ""
        raise OAuthRegistrationError(f"Registration failed: {response.status_code}{note} {response.text}")
    try:
        fields: Any = from_json(content)
        if is_object(fields):  # The issuer is the client's own note, and nothing that a server says.
            fields = {name: value for name, value in fields.items() if name != "issuer"}
        return auth.OAuthClientInformationFull.model_validate(fields)
    except ValueError as error:
        raise OAuthRegistrationError(f"Invalid registration response: {error}") from error


def is_valid_client_metadata_url(url: str | None) -> bool:
    """Return True for a URL that can be a client id: https, with a path."""
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return False
    return parts.scheme == "https" and parts.path not in ("", "/")


def should_use_client_metadata_url(oauth_metadata: auth.OAuthMetadata | None, client_metadata_url: str | None) -> bool:
    """Return True if the client id is the URL of the client's metadata, since the server takes such ids."""
    supported = getattr(oauth_metadata, "client_id_metadata_document_supported", None)
    return bool(client_metadata_url) and supported is True


def create_client_info_from_metadata_url(
    client_metadata_url: str, redirect_uris: list[Any] | None = None
) -> auth.OAuthClientInformationFull:
    """Return the client whose id is the URL of its metadata."""
    return auth.OAuthClientInformationFull(
        client_id=client_metadata_url, token_endpoint_auth_method="none", redirect_uris=redirect_uris
    )


async def handle_token_response_scopes(response: Any) -> auth.OfficialOAuthToken:
    """Return the token of a response. Raises OAuthTokenError."""
    try:
        return auth.OfficialOAuthToken.model_validate_json(await response.aread())
    except ValidationError as error:
        raise OAuthTokenError(f"Invalid token response: {error}") from error
