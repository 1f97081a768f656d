"""The context of an app's functions: requests for input of the user and of the client's model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Unpack, overload

from typing_extensions import TypeVar

from mcp_runtime._lazy import LazyModule
from mcp_runtime.endpoint.context import LEVELS
from mcp_runtime.endpoint.requests import ResultT
from mcp_runtime.errors import ClientCapabilityError, ConversionError, JSONRPCError, LocalError, ProtocolViolationError
from mcp_runtime.protocol.lifecycle import MISSING_CAPABILITY_ERROR
from mcp_runtime.protocol.models import is_model
from mcp_runtime.protocol.revision import InputRequest, Request, Revision
from mcp_runtime.server.context import Level, ServerContext
from mcp_runtime.session.requests import Params, RequestKeywords, RequestOptions

if TYPE_CHECKING:
    from pydantic import BaseModel

    from . import elicitation, sampling, sync_context
    from .elicitation import ElicitationResult, URLElicitationResult
    from .sampling import SampleKeywords, SampleResult
    from .sync_context import SyncContext
else:  # Imported when they are used.
    sync_context = LazyModule("mcp_products.app.context.sync_context")
    elicitation = LazyModule("mcp_products.app.context.elicitation")
    sampling = LazyModule("mcp_products.app.context.sampling")

T = TypeVar("T", default=Any)
SampledT = TypeVar("SampledT", default=str)
_MAX_TOKENS: Final = 512


# The context of an app's functions: log messages and progress.


def log_arguments(arguments: tuple[Any, ...], values: Mapping[str, Any]) -> tuple[Level, Any, str | None]:
    """Return the level, the message and the logger of a call of `log`.

    Without keywords the level comes first, as in the official SDK. The message comes first if it stands alone or beside
    `level=`, and if only the second argument is a level, as in FastMCP.

    Raises LocalError for an unknown level, and TypeError for a wrong number of arguments.
    """
    names = ["level", "data", "logger"]
    if values["level"] is not None or (len(arguments) == 1 and values["data"] is None):
        names = ["data", "logger"]
    elif len(arguments) > 1 and arguments[0] not in LEVELS and arguments[1] in LEVELS:
        names = ["data", "level", "logger"]
    positional = dict(zip(names, arguments, strict=False))
    twice = [name for name in positional if values[name] is not None]
    if twice or len(arguments) > len(names) or ("data" not in positional and values["data"] is None):
        raise TypeError(f'log() needs a level and a message{", not two of one" if twice else ""}: log("info", "text")')
    merged: dict[str, Any] = {**values, **positional}
    level: Any = merged["level"] or "info"
    if level not in LEVELS:
        raise LocalError(f"log() has no level {level!r}; the levels are {', '.join(LEVELS)}")
    return level, merged["data"], merged["logger"]


class LoggingContext(ServerContext):
    """The context of a handler, with a method for each of the usual levels of log messages."""

    @overload
    async def log(
        self,
        level: Level,
        data: Any = None,
        logger: str | None = None,
        *,
        message: Any = None,
        logger_name: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None: ...
    @overload
    async def log(
        self,
        data: Any,
        /,
        *,
        level: Level | None = None,
        logger: str | None = None,
        logger_name: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None: ...
    async def log(  # pyright: ignore[reportInconsistentOverload]
        self,
        *arguments: Any,
        level: Level | None = None,
        data: Any = None,
        logger: str | None = None,
        message: Any = None,
        logger_name: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Send a log message to the client, if its minimum level allows it: `log("info", "text")`, `log("text")`.

        A function that runs again, because the client has answered an input request, sends each message once.
        Messages above 1,000 a second (after the first 5,000) are dropped. See
        https://modelcontextprotocol.io/specification/draft/server/utilities/logging

        Args:
            arguments: The level, the message and the name of the logger; or the message alone.
            level: The severity of the message (RFC 5424); "info" by default.
            data: The message: any JSON value.
            logger: The name of the logger.
            message: Another name of `data`.
            logger_name: Another name of `logger`.
            extra: Further JSON values; the message is then `{"msg": data, "extra": extra}`.

        Raises LocalError for an unknown level, and TypeError without a message.
        """
        values = {"level": level, "data": message if data is None else data, "logger": logger_name or logger}
        severity, text, name = log_arguments(arguments, values)
        if self.is_repeated("log"):
            return
        await super().log(severity, {"msg": text, "extra": dict(extra)} if extra else text, name)

    @property
    def sync(self) -> SyncContext:
        """The methods for log messages and progress as a plain `def` function calls them: `ctx.sync.info("text")`."""
        return sync_context.SyncContext(self)

    def is_repeated(self, kind: str) -> bool:
        """Return True if this function runs again, because the client has answered an input request, and has done this
        in an earlier run already.

        Args:
            kind: What is done, such as "log": the calls of one kind are counted.
        """
        return self.multi_round_trip is not None and self.multi_round_trip.is_repeated(f"#{kind}")

    async def debug(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `debug`. The arguments are those of `info`."""
        await self.log("debug", message, **_given(logger_name, {**(extra or {}), **fields}))

    async def info(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `info`.

        Args:
            message: The message: any JSON value.
            logger_name: The name of the logger.
            extra: Further JSON values.
            fields: Further values of `extra`.
        """
        await self.log("info", message, **_given(logger_name, {**(extra or {}), **fields}))

    async def warning(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `warning`. The arguments are those of `info`."""
        await self.log("warning", message, **_given(logger_name, {**(extra or {}), **fields}))

    async def error(
        self, message: Any, logger_name: str | None = None, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> None:
        """Send a log message of the level `error`. The arguments are those of `info`."""
        await self.log("error", message, **_given(logger_name, {**(extra or {}), **fields}))

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the client has requested progress; another name of `progress`."""
        await self.progress(progress, total, message)


def _given(logger_name: str | None, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of `log` that have values: that of a subclass may not have all of them."""
    return {name: value for name, value in (("logger_name", logger_name), ("extra", extra)) if value}


class MissingCapabilityResponseError(ClientCapabilityError, JSONRPCError):
    """The error of a protocol version that has a JSON-RPC error for a capability that the client does not have."""


class InputContext(LoggingContext):
    """The context of a handler that requests input with Python types: forms, URLs and messages of a model."""

    @overload
    async def elicit(
        self,
        message: str,
        schema: type[T] | None = None,
        *,
        response_type: type[T] | None = None,
        response_title: str | None = None,
        response_description: str | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> ElicitationResult[T]: ...
    @overload
    async def elicit(
        self,
        message: str,
        schema: Any = None,
        *,
        response_type: Any = None,
        response_title: str | None = None,
        response_description: str | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> ElicitationResult[Any]: ...
    @overload
    async def elicit(
        self,
        message: BaseModel,
        *,
        options: RequestOptions | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> Any: ...
    async def elicit(
        self,
        message: str | BaseModel,
        schema: Any = None,
        *,
        response_type: Any = None,
        response_title: str | None = None,
        response_description: str | None = None,
        options: RequestOptions | None = None,
        **keywords: Unpack[RequestKeywords],
    ) -> Any:
        """Elicit input from the user with a form, through the client.

        The result is an AcceptedElicitation with the `data`, a DeclinedElicitation or a CancelledElicitation; each has
        an `action`. See https://modelcontextprotocol.io/specification/draft/client/elicitation

        Args:
            message: What the user is asked for; or the params of the request, for the result as the client sends it.
            schema: The type of the data: a pydantic model, a dataclass or a TypedDict with fields of simple types; a
                simple type (`str`, `int`, `float`, `bool`, a date), a Literal or an Enum; a list of a Literal or an
                Enum; a list of strings to choose from; or the JSON Schema of a form.
            response_type: Another name of `schema`.
            response_title: The label of the field of a simple type.
            response_description: The description of the field of a simple type.
            options: The options of the request, with the params as `message`.
            keywords: The options of the request, such as `timeout` in seconds; by default there is no time-out.

        Raises ClientCapabilityError if the client cannot show forms, TypeError if the type does not fit into a form,
        and InvalidResponseError if the data do not have the type.
        """
        if is_model(message):
            return await self._send_request(self.client_row("on_elicit"), message, options, keywords)
        return await elicitation.elicit_form(
            self,
            message,
            schema,
            response_type=response_type,
            title=response_title,
            description=response_description,
            keywords=keywords,
        )

    async def elicit_url(
        self, message: str, url: str, elicitation_id: str | None = None, **keywords: Unpack[RequestKeywords]
    ) -> URLElicitationResult:
        """Let the user visit a URL, for input that must not pass through the client, such as a password or a payment.

        The result says whether the user agreed to visit it. See
        https://modelcontextprotocol.io/specification/draft/client/elicitation

        Args:
            message: Why the user needs to visit the URL.
            url: The URL.
            elicitation_id: The id of the elicitation, in protocol versions that have one; by default derived from the
                URL.
            keywords: The options of the request, such as `timeout` in seconds; by default there is no time-out.

        Raises ClientCapabilityError if the client cannot open URLs.
        """
        return await elicitation.elicit_url(self, message, url, elicitation_id, keywords)

    async def sample(
        self,
        messages: Any,
        max_tokens: int = _MAX_TOKENS,
        *,
        result_type: type[SampledT] | None = None,
        **settings: Unpack[SampleKeywords],
    ) -> SampleResult[SampledT]:
        """Sample a message from the client's model.

        Args:
            messages: A text, a message with `role` and `content`, or a list of these.
            max_tokens: The maximum number of tokens of the message.
            result_type: The type of `result`: the model is told its JSON Schema, and its message is read as JSON. After
                a message that does not fit, the model gets the error and two more attempts.
            system_prompt: The system prompt.
            temperature: The temperature of the sampling.
            model_preferences: The name of a model, a list of names, or ModelPreferences.
            include_context: Which servers' context the client adds: "none", "thisServer" or "allServers".
            stop_sequences: Texts that end the message.
            metadata: JSON values for the client's provider.
            tools: Functions that the model may call, and definitions of tools; the client needs the capability for
                them. Functions are called with what the model sends, and it gets their results, until it calls none.
            tool_choice: How the model chooses tools.
            settings: Also the options of the request, such as `timeout` in seconds; by default there is no time-out.

        Raises ClientCapabilityError if the client has no model, TypeError for an unknown keyword, and
        InvalidResponseError if no message has the type.
        """
        return await sampling.sample(self, messages, max_tokens, result_type, dict(settings))

    async def _send_request(
        self,
        row: Request[ResultT] | InputRequest[ResultT],
        params: Params,
        options: RequestOptions | None,
        keywords: RequestKeywords | None = None,
    ) -> ResultT:
        """Send a request to the client. Raises ClientCapabilityError if the client cannot answer it."""
        try:
            return await super()._send_request(row, params, options, keywords)
        except (ConversionError, ProtocolViolationError) as error:
            raise ClientCapabilityError(f"the client cannot do this: {error}") from None
        except JSONRPCError as error:
            if error.code != self.revision.constants.get(MISSING_CAPABILITY_ERROR):
                raise
            raise MissingCapabilityResponseError(error.code, str(error), error.data) from None

    async def send_client_request(
        self, name: str, params: dict[str, Any], options: RequestOptions, keywords: RequestKeywords | None = None
    ) -> Any:
        """Send a request to the client, and return its result; `name` is that of the client's handler."""
        return await self._send_request(self.client_row(name), params, options, keywords)

    def client_row(self, name: str) -> Any:
        """Return the row of a request or a notification to the client; `name` is that of the client's handler.

        Raises LocalError if the protocol version of the app has none.
        """
        return client_rows(self.revision)[name]


@cache
def client_rows(revision: Revision) -> Mapping[str, Any]:
    """Return the rows of the requests and notifications to clients, by the names of the clients' handlers."""
    return {row.name: row for row in revision.rows if row.direction == "server_to_client"}
