"""How an app of the official SDK is protected: its token verifier, and the hosts and origins it accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from ..errors import LocalError

if TYPE_CHECKING:
    from ..app.serving.server_settings import ServerSettings
    from ..auth.resource_server.protection import ResourceServer
    from .auth.oauth_models import AuthSettings
    from .auth.token_verification import OfficialTokenVerifier
    from .http.accepted_hosts import TransportSecuritySettings


class Protection:
    """The protection of one app."""

    def __init__(
        self,
        auth: AuthSettings | None,
        verifier: OfficialTokenVerifier | None,
        security: TransportSecuritySettings | None,
    ) -> None:
        """Create the protection.

        Args:
            auth: The settings of the protected resource; None without authentication.
            verifier: Verifies access tokens; None without authentication.
            security: The Host and Origin headers to accept; None for the default.
        """
        self.auth = auth
        self.verifier = verifier
        self.security = security

    @classmethod
    def from_settings(cls, name: str, settings: dict[str, Any]) -> Self:
        """Remove the keywords of the protection from those of a constructor.

        Raises LocalError for `auth` without a verifier, and for a verifier without `auth`.
        """
        auth, verifier = settings.pop("auth", None), settings.pop("token_verifier", None)
        if hasattr(auth, "verify_token"):
            raise LocalError(
                f"{name}: auth={type(auth).__name__}(…) verifies tokens only; write token_verifier=… for it, and"
                " auth=AuthSettings(issuer_url=…)"
            )
        if (auth is None) != (verifier is None):
            missing = "token_verifier" if verifier is None else "auth"
            raise LocalError(f"{name}: {missing} is missing; pass both auth=AuthSettings(…) and token_verifier=…")
        return cls(auth, verifier, settings.pop("transport_security", None))

    @property
    def middleware(self) -> Callable[..., Any]:
        """The middleware that `get_access_token` needs."""
        from .current_token import with_user

        return with_user

    def keywords(self, settings: ServerSettings) -> dict[str, Any]:
        """Return the keywords of `asgi` for a server with these settings."""
        keywords: dict[str, Any] = {} if self.security is None else self.security.keywords()
        if self.auth is not None and self.verifier is not None:
            keywords["auth"] = self._resource(settings)
        return keywords

    def _resource(self, settings: ServerSettings) -> ResourceServer:
        from .auth.token_verification import protected_resource

        assert self.auth is not None and self.verifier is not None, "checked by the constructor"
        return protected_resource(self.auth, self.verifier, f"http://{settings.host}:{settings.port}{settings.path}")
