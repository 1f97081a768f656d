"""A message and its conversation go in; out comes what the handler of a server knows of them, and may ask and tell."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic_core import from_json, to_json

from ..errors import InvalidMessage, InvalidResponse, NotAllowed, Refusal
from ..jsonrpc import INTERNAL_ERROR
from ..peer import Asked, Told
from ..seams import Speaker
from ..spec import META, InputRequest, Request
from ..wire import is_object
from .calls import Options, Params, ResultT
from .face import LEVELS, Context
from .guards import check_form, check_harmless
from .rates import Allowance, Rate
from .rounds import Rounds
from .tasking import MayBecomeTask, Task

if TYPE_CHECKING:
    from ..auth.resource.caller import User
    from .conversation import Conversation

_LOG: Final = Rate(per_second=1000, burst=5000)

Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class ServerContext(Context):
    """What a server's handler knows of the message it handles; `state` is what the server's lifespan gave."""

    _rounds: Rounds | None = None
    _call: MayBecomeTask | None = None
    _how = Task()

    def __init__(self, conversation: Conversation, session: Speaker, message: Asked | Told) -> None:
        # Not by way of the base class: this is done for every message.
        self._session = session
        self._message = message
        self.state = conversation.state
        self._conversation = conversation

    @property
    def conversation(self) -> Conversation:
        """Which conversation this is: the same object for all messages of one client."""
        return self._conversation

    @property
    def client_info(self) -> dict[str, Any]:
        """What the client calls itself, as it said: never a proof of anything."""
        said = self.meta.get(f"{META}clientInfo")
        return said if is_object(said) else self._conversation.client_info

    @property
    def user(self) -> User | None:
        """Whose request this is, where the endpoint is protected; None over stdio, and where nobody has to say."""
        caller = self._session.caller
        return None if caller is None else caller.user

    def needs(self, *scopes: str) -> None:
        """Raises Refusal unless the user's token has all of these scopes. Over HTTP the client is asked to come back
        with them (403), if nothing of the answer was sent yet; over stdio whoever started the server may do all."""
        caller = self._session.caller
        if caller is not None:
            caller.need(scopes)

    def part(self) -> None:
        """End the connection that the answer was to come over, so that a long request holds none; the client comes
        back for the answer. Does nothing where a transport has no such connection, or no way to come back."""
        self._live().part()

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send a log message, if the client wants messages of this level; what comes too often (more than 1,000 a
        second, after the first 5,000) is left out. Raises NotAllowed without the capability."""
        wanted = self.meta.get(f"{META}logLevel") or self._conversation.level
        if wanted is not None and LEVELS.index(level) >= LEVELS.index(wanted):
            said = {"level": level, "data": data, "logger": logger}
            pace = self._conversation.log_pace = self._conversation.log_pace or Allowance(_LOG)
            if not pace.take():
                if (row := self.revision.lifecycle.log) is None:
                    raise NotAllowed(f"there are no log messages of a server in {self.revision.id}")
                await self._tell(row, said, None)

    async def as_task(self, how: Task | None = None) -> bool:
        """Answer the request with a task now and go on behind it, where the server has tasks and the client knows
        them; what is asked from here on, is asked by the task. Elsewhere nothing happens, or, where a task is `needed`,
        Refusal is raised. Without `how`, it is as the tool says. Whether it is a task now."""
        how = how or self._how
        if self._call is None:
            if how.needed:
                raise Refusal(INTERNAL_ERROR, "this needs a task, and the server has none")
            return False
        if begun := await self._call.begin(how):
            self._rounds = None
        return begun

    async def status(self, message: str) -> None:
        """What the task is at, in words; nothing happens where the request has not become one."""
        if self._call is not None:
            await self._call.say(message)

    async def once(self, key: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, as JSON; where the handler runs again because it asked the client something, what it gave
        the first time. For side effects, awaited before what is asked next."""
        if self._rounds is not None:
            return await self._rounds.once(key, make)
        made = make()
        return from_json(to_json(await made if isawaitable(made) else made))

    async def _ask(
        self, row: Request[ResultT] | InputRequest[ResultT], params: Params, options: Options | None
    ) -> ResultT:
        check_harmless(params)
        answer = await super()._ask(row, params, options)
        try:
            check_form(params, answer)
        except InvalidMessage as fault:
            raise InvalidResponse(f"{row.method!r}: {fault}") from None
        return answer
