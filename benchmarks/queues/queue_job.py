"""A worker, and what gives it work, of one queue engine for queue_kills.py: `… ENGINE ROLE REDIS LOG [KEY]`.

ROLE is `work`, `put`, `cancel` or `result`. A job writes a line when it begins, ends or is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

LEASE = 2.0  # Seconds after which the job of a worker that shows nothing belongs to another one.
JOB = 6.0  # Seconds of a job: longer than a lease, so that leases have to be renewed.


def note(text: str) -> None:
    with Path(sys.argv[4]).open("a", encoding="utf-8") as log:
        log.write(f"{time.time():.2f} {os.getpid()} {text}\n")


async def job(number: int) -> int:
    note("begins")
    try:
        await asyncio.sleep(JOB)
    except asyncio.CancelledError:
        note("cancelled")
        raise
    note("ends")
    return number


async def docket(role: str, url: str, key: str) -> None:
    module: Any = import_module("docket")
    async with module.Docket(name="jobs", url=url, execution_ttl=timedelta(minutes=5)) as queue:
        queue.register(job)
        if role == "work":
            async with module.Worker(queue, redelivery_timeout=timedelta(seconds=LEASE)) as worker:
                await worker.run_forever()
        elif role == "put":
            await queue.add(job, key=key)(7)
        elif role == "cancel":
            await queue.cancel(key)
        else:
            execution = await queue.get_execution(key)
            print(None if execution is None else await execution.get_result(timeout=timedelta(seconds=1)))


async def streaq(role: str, url: str, key: str) -> None:
    module: Any = import_module("streaq")
    queue = module.Worker(redis_url=url, idle_timeout=LEASE)
    task = queue.task(ttl=300)(job)
    if role == "work":
        return await queue.run_async()
    async with queue:
        if role == "put":
            enqueued = task.enqueue(7)
            enqueued.id = key
            await enqueued
        elif role == "cancel":
            await queue.abort_by_id(key, 5)
        else:
            print((await queue.result_by_id(key, 5)).result)


async def taskiq(role: str, url: str, key: str) -> None:
    module: Any = import_module("taskiq_redis")
    api: Any = import_module("taskiq.api")
    results = module.RedisAsyncResultBackend(url, result_ex_time=300)
    queue = module.RedisStreamBroker(url, idle_timeout=int(LEASE * 1000), xread_block=500).with_result_backend(results)
    task = queue.task(task_name="job")(job)
    await queue.startup()
    if role == "work":
        await api.run_receiver_task(queue)
    elif role == "put":
        await task.kicker().with_task_id(key).kiq(7)
    elif role == "cancel":
        note("has no cancellation")
    else:
        print((await results.get_result(key)).return_value)


if __name__ == "__main__":
    _, engine, role, url, _, *rest = sys.argv
    asyncio.run({"docket": docket, "streaq": streaq, "taskiq": taskiq}[engine](role, url, *(rest or [""])))
