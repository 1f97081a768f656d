"""Faults that campaigns and people have found, and that are mended. Each is an edit of the code, which puts it back.

They are in docs/reliability.md ("What was found and mended"). A simulator that does not find them is not believed:
benchmarks/results/reliability.md has the first schedule that finds each.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import NamedTuple

_SESSIONS = "mcp_products.workers.sessions"
_STORES = "mcp_products.workers.stores"


class Edit(NamedTuple):
    """The text of a module that is replaced."""

    module: str
    right: str
    wrong: str


MAIL, WORKER, STREAMS = f"{_SESSIONS}.mail", f"{_SESSIONS}.worker", f"{_SESSIONS}.streams"
RECORDS = f"{_SESSIONS}.records"
CHANGES, STANDALONE, SESSIONS = f"{_SESSIONS}.changes", f"{_SESSIONS}.standalone", f"{_SESSIONS}.sessions"

FAULTS = {
    "after a quiet minute, messages between workers are lost": (
        Edit(f"{_STORES}.memory", "number_at(clocks.wall()) - len(entries))", "0) if False else kept.last"),
        Edit(MAIL, "MAIL_SECONDS: Final = 600.0", "MAIL_SECONDS: Final = 60.0"),
        Edit(MAIL, "if not entries and last and", "if False and"),
    ),
    "nobody notices that the store has lost its past": (Edit(MAIL, "        self.losses += 1\n", ""),),
    "the answer of a client to a request of another worker is not stored": (
        Edit(
            WORKER,
            "await self._mail.send(worker, self.new_token(), kind, fields)",
            "await self.send(worker, kind, **fields)",
        ),
    ),
    "a client that resumes the stream of a killed worker waits for ever": (
        Edit(WORKER, "await self._end_failed()\n", "pass\n"),
    ),
    "a stream of a killed worker is not ended if the store cannot be reached just then": (
        Edit(
            WORKER, "await stream.end_failed(_ENDED)", "self.watched.discard(stream); await stream.end_failed(_ENDED)"
        ),
    ),
    "a call whose messages could not be stored waits for ever": (
        Edit(STREAMS, "self._worker.unwritten.add(self)\n", "pass\n"),
    ),
    "messages of sessions stand twice when the answer of the store is lost": (
        Edit(STANDALONE, "self._stored, self._token[1])", "None, self._worker.new_token())"),
    ),
    "changes stand twice when the answer of the store is lost": (
        Edit(
            CHANGES,
            "_announced.append(key, entry,",
            "_announced.append(key, to_json([method, params, worker.new_token()]),",
        ),
        Edit(CHANGES, "_TTL, token, after))", "_TTL, worker.new_token(), after))"),
    ),
    "a message comes again with the next GET without Last-Event-ID": (
        Edit(STANDALONE, "if not await listener.advance(", "if False and not await listener.advance("),
    ),
    "an announcement that is stored fails, because its hint is not sent": (
        Edit(CHANGES, '_log.warning("a change is stored, and is read later: %s", error)', "raise"),
    ),
    "a store that cannot be reached makes requests fail at once": (
        Edit(f"{_STORES}.retries", "if loop.time() + delay > until:", "if True:"),
    ),
    "a stream that is open for long is not stored any more": (Edit(STREAMS, "await self._append([])\n", "return\n"),),
    "a loss of the store is not told to the clients": (Edit(CHANGES, "await self._announce_everything()\n", "pass\n"),),
    "changes that the store has lost are not announced again": (
        Edit(CHANGES, "await self._announced.append_again()\n", "pass\n"),
    ),
    "a session is not found just after a loss": (
        Edit(SESSIONS, "while record is None and await", "while False and await"),
    ),
    "a session is not found if the store cannot be reached just after a loss": (
        Edit(WORKER, "self._restoring_ticks > 0 or", ""),
    ),
    "a session is not found if the machine sleeps just after a loss": (
        Edit(WORKER, "self._restoring_ticks > 0 or", ""),
        Edit(
            WORKER,
            "max(self._begun_until, self._life.unsighted_at + _RESTORING_SECONDS)",
            "self._begun_until",
        ),
    ),
    "clients are not told of a loss after which the store has an epoch again that it had before": (
        Edit(MAIL, "stored in self._former", "False"),
    ),
    "a worker that has stored an older state of a session after a loss goes on with it": (
        Edit(RECORDS, "if stored is not None:  # The worker", "if False:  # The worker"),
    ),
    "a worker that begins after an outage does not find a stream that was given up in it": (
        Edit(
            WORKER, "        self._failed_at = clock.monotonic()\n        self._life.give_time()\n", "        return\n"
        ),
    ),
    "a worker that has not reached its store announces changes to nobody": (
        Edit(f"{_SESSIONS}.endpoint", "        self._changes.relay()\n", ""),
    ),
    "a stream that was given up is not found before its worker has ended it": (
        Edit(WORKER, "_ENDING_SECONDS: Final = 3 * _TICK", "_ENDING_SECONDS: Final = -1e9"),
        Edit(WORKER, "if not may_be_ended and not await self.may_restore(losses):", "if not may_be_ended:"),
    ),
    "a worker forgets a session as soon as its connection of minutes ends": (
        Edit(SESSIONS, "replica.last_used = self._worker.recent(now)  # Its", "# Its"),
    ),
    "a worker forgets a session at once whose connection of minutes ends just before it looks": (
        # Real timers are late.
        Edit(SESSIONS, "min(now - _UNUSED_SECONDS, self._looked_at) - RECENT", "now - _UNUSED_SECONDS + 1e-3"),
    ),
    "the sender of a message of a session that could not be stored gets no error": (
        Edit(STANDALONE, "await asyncio.shield(self._storing)", "await asyncio.wait([self._storing])"),
    ),
    "the id of a stream is sent before other workers find the stream": (
        Edit(STREAMS, "if not self._ending and (self._stored or self._scopes is not None):", "if not self._ending:"),
    ),
    "the answer of a client is lost with the newest second of the store, which a later answer hides": (
        Edit(MAIL, "if sent.number in stored or len(entries) == STREAM_LIMIT:", "if True:"),
    ),
    "a change that a worker has not read is lost when the time goes back just before a loss": (
        Edit(MAIL, "sent.ttl, sent.number - 1, token)", "sent.ttl, None, token)"),
        Edit(CHANGES, "if change[0] <= self.last and self._know(token, change[0]):", "if False:"),
    ),
    "clients are not told of a loss after which the store has a sign of life again that was gone": (
        Edit(MAIL, "return _number_of(sign) <= last.number", "return _number_of(sign) < last.number"),
    ),
    "clients are not told of a loss between two attempts to store a sign of life": (
        Edit(MAIL, "self._signs[key] = last._replace(value=_GONE)", "pass"),
    ),
    "clients are not told of a loss between two attempts to store a sign of life that have one number": (
        Edit(MAIL, "self._number += 1", "self._number = 1 if last is None else last.number + 1"),
        Edit(
            MAIL,
            "            number = last.number if found is None else _number_of(found)\n"
            "            self._signs[key] = last._replace(number=number, value=found)\n",
            "            await store.put(key, value, self._seconds)\n"
            "            return _Sign(self._number, sent_at, value)\n",
        ),
    ),
    "clients are not told of a loss if the store could not be reached just after a sign of life": (
        Edit(MAIL, "self._signs[key] = sign = _Sign(", "sign = _Sign("),
    ),
    "a call is not found just after the store has lost its newest second": (
        Edit(WORKER, "if not may_be_ended and not await self.may_restore(losses):", "if not may_be_ended:"),
    ),
    "a worker does not notice the loss of a part from which the slots of its signs have just moved": (
        Edit(MAIL, "if self._signs and not shown.keys() <= self._signs.keys():", "if False:"),
    ),
    "a change is not read that has the number of one that the store has lost": (
        Edit(CHANGES, "if change[0] <= self.last and self._know(token, change[0]):", "if False:"),
    ),
    "a message that a worker has not read before a long sleep is forgotten after it": (
        Edit(MAIL, "elif clock.monotonic() < life.unsure_until:", "elif False:"),
    ),
    "a worker that begins does not ask the others whether a part has just been lost": (
        Edit(WORKER, "self._begun_until = clock.monotonic() + _ANSWER_SECONDS", "pass"),
    ),
}


def put_back(name: str) -> None:
    """Let the modules of a fault have it, before anything else imports them. Raises LookupError if its text is gone."""
    for module in dict.fromkeys(edit.module for edit in FAULTS[name]):  # Those that others import first.
        spec = find_spec(module)
        assert spec is not None and spec.origin is not None and spec.name not in sys.modules, f"{module} is loaded"
        source = Path(spec.origin).read_text(encoding="utf-8")
        for edit in FAULTS[name]:
            if edit.module == module:
                if source.count(edit.right) != 1:
                    raise LookupError(
                        f"the fault {name!r}: {module} has changed; write anew what it replaces: {edit.right!r}"
                    )
                source = source.replace(edit.right, edit.wrong)
        sys.modules[module] = wrong = module_from_spec(spec)
        exec(compile(source, spec.origin, "exec"), vars(wrong))
        parent, _, last = module.rpartition(".")
        setattr(sys.modules[parent], last, wrong)
