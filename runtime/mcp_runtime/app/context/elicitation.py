"""Requests for input of the user, with forms and URLs, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from ...errors import InvalidResponseError
from ...session.options import RequestKeywords, RequestOptions
from .form import Form

T = TypeVar("T")

# People take their time: there is no time-out unless the caller sets one.
NO_TIMEOUT: Final = RequestOptions(timeout=None)


@dataclass(frozen=True)
class AcceptedElicitation(Generic[T]):
    """The user has filled in the form: `data` has the requested type."""

    data: T
    action: Literal["accept"] = "accept"


@dataclass(frozen=True)
class DeclinedElicitation:
    """The user has refused."""

    action: Literal["decline"] = "decline"
    data: None = None


@dataclass(frozen=True)
class CancelledElicitation:
    """The user has dismissed the request."""

    action: Literal["cancel"] = "cancel"
    data: None = None


@dataclass(frozen=True)
class AcceptedUrlElicitation:
    """The user has agreed to visit the URL."""

    action: Literal["accept"] = "accept"
    data: None = None


ElicitationResult: TypeAlias = AcceptedElicitation[T] | DeclinedElicitation | CancelledElicitation
URLElicitationResult: TypeAlias = AcceptedUrlElicitation | DeclinedElicitation | CancelledElicitation


class ClientRequester(Protocol):
    """A context that sends requests to the client."""

    async def send_client_request(
        self, name: str, params: dict[str, Any], options: RequestOptions, keywords: RequestKeywords | None = None
    ) -> Any:
        """Send a request to the client, and return its result; `name` is that of the client's handler."""
        ...


async def elicit_form(
    ctx: ClientRequester,
    message: str,
    schema: Any,
    *,
    response_type: Any,
    title: str | None,
    description: str | None,
    keywords: RequestKeywords,
) -> ElicitationResult[Any]:
    """Send a form to the user, and return the result with data of the requested type."""
    if schema is not None and response_type is not None:
        raise TypeError("elicit() got both `schema` and `response_type`, which are names of the same argument")
    form = Form(schema if response_type is None else response_type, title, description)
    params: dict[str, Any] = {"mode": "form", "message": message, "requestedSchema": form.schema}
    result = await ctx.send_client_request("on_elicit", params, NO_TIMEOUT, keywords)
    match result.action:
        case "accept":
            return AcceptedElicitation(form.read(result.content or {}))
        case "decline":
            return DeclinedElicitation()
        case "cancel":
            return CancelledElicitation()
        case action:
            raise InvalidResponseError(f"the client responded to the form with the unknown action {action!r}")


async def elicit_url(
    ctx: ClientRequester, message: str, url: str, elicitation_id: str | None, keywords: RequestKeywords
) -> URLElicitationResult:
    """Request that the user visits a URL, and return whether the user agreed."""
    params: dict[str, Any] = {"mode": "url", "message": message, "url": url}
    if elicitation_id is not None:
        params["elicitationId"] = elicitation_id
    result = await ctx.send_client_request("on_elicit", params, NO_TIMEOUT, keywords)
    actions: Mapping[str, URLElicitationResult] = {
        "accept": AcceptedUrlElicitation(),
        "decline": DeclinedElicitation(),
        "cancel": CancelledElicitation(),
    }
    return actions[result.action]
