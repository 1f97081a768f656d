"""Every time to live that the code gives a store, and what happens when it has passed."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from support.project import ROOT

from mcp_products.auth.resource_server import dpop as shared_proofs
from mcp_products.workers.sessions import changes as change_log
from mcp_products.workers.sessions import endpoint as shared_keys
from mcp_products.workers.sessions import legacy_sse as shared_legacy_sse
from mcp_products.workers.sessions import mail as life_signs
from mcp_products.workers.sessions import mail as mailbox
from mcp_products.workers.sessions import state as stored_states
from mcp_products.workers.sessions import streams as storing_stream
from mcp_products.workers.sessions import worker
from mcp_products.workers.stores import sqlite as sqlite_store
from mcp_products.workers.tasks import shared as shared_tasks

PRODUCTS = ROOT / "products" / "mcp_products"
PLACES = {"put": 2, "touch": 1, "count": 2, "append": 2}  # Where the methods of a store have the time to live.
STORES = re.compile(r"store$|worker$|_announced$|sent$")
# What gets the time to live from its caller.
PASSES_ON = {
    "metrics/stores.py ttl",
    "workers/sessions/mail.py sent.ttl",
    "workers/sessions/mail.py ttl",
    "workers/stores/retries.py ttl",
}
DAY = 86_400.0


class Life(NamedTuple):
    """A time to live in seconds, None for one that the user sets; who renews it; and the test that lets it pass."""

    seconds: float | None
    renewed: str
    test: str


PAUSES = "test_pauses_and_losses.py"
IDLE = Life(None, "sessions in use, every minute, and their open streams with them", "test_noticed_losses.py")
LIVES = {
    "workers/sessions/mail.py self._seconds": Life(worker._ALIVE_SECONDS, "every 2 seconds", PAUSES),
    "workers/sessions/mail.py EPOCH_SECONDS": Life(life_signs.EPOCH_SECONDS, "every 2 seconds", PAUSES),
    "workers/sessions/mail.py MAIL_SECONDS": Life(mailbox.MAIL_SECONDS, "no: senders keep what is unread", PAUSES),
    "workers/sessions/changes.py _TTL": Life(change_log._TTL, "no: numbers go on", PAUSES),
    "workers/sessions/endpoint.py _TTL": Life(shared_keys._TTL, "every day, with a new key", PAUSES),
    "workers/sessions/legacy_sse.py _TTL": Life(shared_legacy_sse._TTL, "every 5 minutes", PAUSES),
    "workers/sessions/streams.py _FINISHED_SECONDS": Life(
        storing_stream._FINISHED_SECONDS, "no: a later GET gets 400", PAUSES
    ),
    "workers/sessions/streams.py self._ttl": IDLE,
    "workers/sessions/streams.py ttl": IDLE,
    "workers/sessions/standalone.py self._ttl": IDLE,
    "workers/sessions/claims.py self._ttl": IDLE,
    "workers/sessions/sessions.py self._ttl": IDLE,
    "workers/sessions/records.py self._ttl": IDLE,
    "workers/sessions/records.py ttl": IDLE,
    "workers/sessions/records.py self._ttl if is_open else self.handshake_ttl": IDLE,
    "workers/sessions/worker.py ttl": IDLE,
    "workers/tasks/shared.py seconds_of(record)": Life(
        shared_tasks._FOREVER, "tasks without `ttl=` that run, every 5 minutes", PAUSES
    ),
    "workers/tasks/shared.py max(seconds, _SHORTEST)": Life(
        None, "with each task that begins or ends", "tests/workers/tasks/test_limits_of_workers.py"
    ),
    "workers/tasks/repeatable.py seconds_of(record)": Life(
        shared_tasks._FOREVER, "no: the call ends with its task", "tests/workers/tasks"
    ),
    "workers/sessions/state.py _DAY": Life(stored_states._DAY, "with each change: as docs/workers.md says", PAUSES),
    "workers/stores/retries.py full - present + _LATE_SECONDS": Life(
        None, "no: a full bucket", "test_rates_of_workers.py"
    ),
    "tenants/records.py _expires(record, now) - now + _LATE": Life(
        None, "with each change, and while its worker lives", "tests/tenants/test_tenants_of_workers.py"
    ),
    "auth/resource_server/dpop.py seconds": Life(None, "no: an old proof is refused", "test_shared_proofs.py"),
    "auth/resource_server/dpop.py _SECRET_SECONDS": Life(
        shared_proofs._SECRET_SECONDS, "with each look", "test_shared_proofs.py"
    ),
    **{
        f"auth/authorization_server/store_storage.py {text}": Life(
            None, "no: what OAuth says has expired", "tests/workers/auth"
        )
        for text in (
            "seconds",
            "ttl",
            "_LASTING_SECONDS",
            "self._seconds_until(grant.expires_at)",
            "self._seconds_until(expires_at)",
            "self._seconds_until(fields['expires_at'])",
        )
    },
}


def times_to_live() -> set[str]:
    """The file and the text of each time to live that is given to a store."""
    found: set[str] = set()
    for path in PRODUCTS.rglob("*.py"):
        name = path.relative_to(PRODUCTS).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PLACES:
                if not STORES.search(ast.unparse(node.func.value)):
                    continue  # A list, or a cache of this process.
                arguments = [*node.args, *(word.value for word in node.keywords if word.arg == "ttl")]
                if len(arguments) > PLACES[node.func.attr]:
                    found.add(f"{name} {ast.unparse(arguments[PLACES[node.func.attr]])}")
    return found - PASSES_ON


@pytest.mark.long
def test_every_time_to_live_is_in_the_table() -> None:
    assert times_to_live() == {*LIVES}


def test_the_pauses_are_longer_than_each_time_to_live() -> None:
    text = (Path(__file__).parent / PAUSES).read_text()
    [line] = re.findall(r"^PAUSES = \((.*)\)$", text, re.MULTILINE)
    pauses = [float(eval(part, {"DAY": DAY})) for part in line.split(", ")]
    times = [life.seconds for life in LIVES.values() if life.seconds is not None and life.test == PAUSES]
    times.append(sqlite_store._MESSAGE_SECONDS)
    for seconds in times:
        assert any(seconds < pause <= 2 * seconds + 10 for pause in pauses), f"no pause lets {seconds} s just pass"


@pytest.mark.parametrize("folder", ["workers/sessions", "workers/stores", "workers/tasks", "extensions/tasks"])
def test_what_depends_on_the_time_asks_the_clock_of_the_runtime(folder: str) -> None:
    """Work is measured with `time.perf_counter`, which no test sets."""
    direct = re.compile(r"\btime\.(time|monotonic)\b|^from time import", re.MULTILINE)
    paths = [*(PRODUCTS / folder).rglob("*.py")]
    assert paths and [path.name for path in paths if direct.search(path.read_text())] == []
