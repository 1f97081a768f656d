"""What the tenants of a server use: what requests take, hold, and give back."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from mcp_runtime.errors import JSONRPCError
from mcp_runtime.stores import Store

from .limits import KINDS, LimitError, Limits
from .records import LEASE, Record, Records, Refusal, Take, give_back, hold, refuse_later, take, use

_RENEWAL: Final = LEASE / 3  # Seconds after which a worker confirms what it holds.
_TASK_LEASE: Final = 7 * 86_400.0  # Seconds after which a task that nobody has ended counts no more.
_TASK_BEGINS: Final = 5.0  # Seconds for which a task without a record is one that begins.
_OVER: Final = frozenset({"completed", "failed", "cancelled"})


class _Held(NamedTuple):
    tenant: Tenant
    limit: str
    holder: str


class Tenant:
    """The tenant of a request: its limits, and where its use is recorded."""

    __slots__ = ("name", "limits", "key", "store")

    def __init__(self, name: str, limits: Limits, key: str, store: Store | None) -> None:
        """Name a tenant; `key` is that of its records, and `store` has them where workers share one."""
        self.name = name
        self.limits = limits
        self.key = key
        self.store = store

    @property
    def lease(self) -> float:
        """Seconds for which what is held counts, unless it is confirmed: nobody else knows of it without a store."""
        return math.inf if self.store is None else LEASE

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tenant) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


class Accounts:
    """What tenants use. `worker` is the name of this process among those that share a store."""

    def __init__(self) -> None:
        """Create accounts of which nothing is used."""
        self.worker = secrets.token_hex(6)
        self._records = Records()
        self._holding: dict[_Held, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._work: set[asyncio.Task[Any]] = set()

    async def begin(self, tenant: Tenant, rates: Mapping[str, float], at_once: bool) -> None:
        """Take what a request needs. Raises JSONRPCError, and takes nothing, if a limit has no room.

        A tenant that is refused very often is refused later: else it would take the time of the others.
        """
        holds = {"at_once": 1} if at_once and tenant.limits.at_once is not None else {}
        wanted = Take(rates, holds, self.worker, tenant.lease)
        try:
            await self._take(tenant, "use", wanted)
        except JSONRPCError:
            await asyncio.sleep(self._records.change_here(f"{tenant.key}:refused", refuse_later))
            raise
        if holds:
            self._keep(tenant, "at_once", self.worker, 1)

    async def end(self, tenant: Tenant, rates: Mapping[str, float], at_once: bool) -> None:
        """Give back what a request has held, and count what it has used besides."""
        holds = at_once and tenant.limits.at_once is not None

        def change(record: Record, now: float) -> None:
            use(record, tenant.limits, rates, now)
            if holds:
                give_back(record, "at_once", self.worker, now)

        if holds:
            self._keep(tenant, "at_once", self.worker, -1)
        if holds or any(getattr(tenant.limits, limit) is not None for limit in rates):
            await self._change(tenant, "use", change)

    async def hold(self, tenant: Tenant, limit: str, holder: str, amount: int = 1) -> None:
        """Hold so many more of something. Raises JSONRPCError if the limit has no room."""
        if getattr(tenant.limits, limit) is not None:
            await self._take(tenant, "held", Take(holds={limit: amount}, holder=holder, lease=tenant.lease))
            self._keep(tenant, limit, holder, amount)

    async def set_held(self, tenant: Tenant, limit: str, holder: str, amount: int) -> None:
        """Set how many of something a holder has; 0 gives back all."""
        held = _Held(tenant, limit, holder)
        if getattr(tenant.limits, limit) is None or (not amount and held not in self._holding):
            return
        self._keep(tenant, limit, holder, amount - self._holding.get(held, 0))
        await self._change(tenant, "held", lambda record, now: hold(record, limit, holder, amount, now, tenant.lease))

    def drop_later(self, tenant: Tenant, limit: str, holder: str) -> None:
        """Give back what a holder has: at once, or as soon as the store can be asked."""
        if _Held(tenant, limit, holder) not in self._holding:
            return
        if tenant.store is None:
            self._holding.pop(_Held(tenant, limit, holder))
            self._records.change_here(
                f"{tenant.key}:held", lambda record, now: hold(record, limit, holder, 0, now, math.inf)
            )
        else:
            self._do(self.set_held(tenant, limit, holder, 0))

    def goes_on(self, tenant: Tenant, limit: str, holder: str) -> None:
        """Hold what another worker has admitted."""
        if getattr(tenant.limits, limit) is not None and _Held(tenant, limit, holder) not in self._holding:
            self._keep(tenant, limit, holder, 1)

    async def _take(self, tenant: Tenant, record: str, wanted: Take) -> None:
        limits = tenant.limits
        refusal: Refusal | None = await self._change(
            tenant, record, lambda record, now: take(record, limits, wanted, now)
        )
        if refusal is not None:
            raise _refused(limits, refusal)

    async def _change(self, tenant: Tenant, record: str, change: Callable[[Record, float], Any]) -> Any:
        key = f"{tenant.key}:{record}"
        if tenant.store is None:
            return self._records.change_here(key, change)
        return await self._records.change(tenant.store, key, change)

    # ---- tasks ------------------------------------------------------------------------------------------------------

    async def admit_task(self, tenant: Tenant, id: str, tasks: Any) -> None:
        """Count a task before it begins; `tasks` are those of the server. Raises JSONRPCError if the tenant has too
        many that have not ended."""
        if tenant.limits.tasks is None:
            return
        wanted = Take(holds={"tasks": 1}, holder=id, lease=_TASK_LEASE)
        try:
            return await self._take(tenant, "held", wanted)
        except JSONRPCError:
            if not await self._forget_tasks(tenant, tasks):
                raise
        await self._take(tenant, "held", wanted)

    async def _forget_tasks(self, tenant: Tenant, tasks: Any) -> bool:
        """Count the tasks that have ended no more; return True if there are any."""
        held: dict[str, list[float]] = {}
        await self._change(tenant, "held", lambda record, now: held.update(_begun(record, now)))
        ended: list[str] = []
        for id in held:
            record = await tasks.store_of().get(id)
            if record is None or record.status in _OVER:
                ended.append(id)

        def forget(record: Record, now: float) -> None:
            for id in ended:
                hold(record, "tasks", id, 0, now)

        await self._change(tenant, "held", forget)
        return bool(ended)

    # ---- what a worker holds ----------------------------------------------------------------------------------------

    def _keep(self, tenant: Tenant, limit: str, holder: str, change: int) -> None:
        """Note that this worker holds more or less of something, which it confirms as long as it does."""
        held = _Held(tenant, limit, holder)
        amount = self._holding.get(held, 0) + change
        if amount > 0:
            self._holding[held] = amount
        else:
            self._holding.pop(held, None)
        if tenant.store is not None and self._holding and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_RENEWAL, self._renew_later)

    def _renew_later(self) -> None:
        self._timer = None
        self._do(self._renew())

    async def _renew(self) -> None:
        for held, amount in [*self._holding.items()]:
            if held.tenant.store is not None and self._holding.get(held) == amount:
                record = "use" if held.limit == "at_once" else "held"
                await self._change(held.tenant, record, _confirmation(held, amount))
        if self._holding and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_RENEWAL, self._renew_later)

    def _do(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


def _begun(record: Record, now: float) -> dict[str, list[float]]:
    """Return the tasks that are older than what is just beginning."""
    held: dict[str, list[float]] = record.get("tasks") or {}
    return {id: own for id, own in held.items() if own[2] <= now - _TASK_BEGINS or own[1] <= now}


def _confirmation(held: _Held, amount: int) -> Callable[[Record, float], None]:
    return lambda record, now: hold(record, held.limit, held.holder, amount, now)


def _refused(limits: Limits, refusal: Refusal) -> LimitError:
    """Return the error of a refused request."""
    limit, wait = refusal
    most = getattr(limits, limit)
    shown = f"{most.per_second:g} a second, {most.burst} at once" if KINDS[limit].wait is None else f"at most {most}"
    text = f"this tenant is at its limit {limit!r} of {KINDS[limit].counts} ({shown}): try again in {wait:.3g} seconds"
    return LimitError(text, limit, wait)
