"""What queue engines on Redis do with a job whose worker is killed, with one that is cancelled, and with a long one.

    python benchmarks/queues/queue_kills.py [--packages DIR]

Each engine gets two workers, leases of two seconds and jobs of six. Printed is, for each engine: how often a job ran
that nothing disturbed; the seconds after a SIGKILL at which another worker began the job again, and its result; and the
seconds in which a cancellation has reached the job. Without `--packages`, a folder with a folder for each engine, they
are installed under build/peers/.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "stores")]

from peers import environment  # noqa: E402
from store_cost import redis_server  # noqa: E402

PROGRAM = HERE / "queue_job.py"
ENGINES = {
    "docket": ("pydocket==0.27.0",),
    "streaq": ("streaq==7.2.0",),
    "taskiq": ("taskiq==0.13.0", "taskiq-redis==1.2.4"),
}
SECONDS = 40.0  # For a job to end.


class Engine:
    """The workers of one engine, with a Redis of their own."""

    def __init__(self, name: str, folder: Path, port: int, packages: Path) -> None:
        self.name = name
        self.log = folder / "log"
        self.url = f"redis://127.0.0.1:{port}"
        self.env = {**os.environ, "PYTHONPATH": str(packages)}
        self.workers: list[subprocess.Popen[bytes]] = []
        self.log.touch()

    def command(self, role: str, *key: str) -> list[str]:
        return [sys.executable, str(PROGRAM), self.name, role, self.url, str(self.log), *key]

    def start_worker(self) -> None:
        output = (self.log.parent / "output").open("a")
        self.workers.append(subprocess.Popen(self.command("work"), env=self.env, stdout=output, stderr=output))

    def run(self, role: str, key: str) -> str:
        done = subprocess.run(self.command(role, key), env=self.env, capture_output=True, text=True, timeout=SECONDS)
        return done.stdout.strip() or "none"

    def lines(self, since: int = 0) -> list[tuple[float, int, str]]:
        rows = [line.split(" ", 2) for line in self.log.read_text().splitlines()]
        return [(float(when), int(pid), what) for when, pid, what in rows][since:]

    def until(self, what: str, since: int, count: int = 1, seconds: float = SECONDS) -> list[tuple[float, int, str]]:
        """Return the lines since a number, when so many of a kind are there, or when the time has passed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            rows = self.lines(since)
            if sum(row[2] == what for row in rows) >= count:
                break
            time.sleep(0.05)
        return self.lines(since)


def measure(engine: Engine) -> str:
    """Return the row of an engine."""
    for _ in range(2):
        engine.start_worker()
    time.sleep(3)
    engine.run("put", "long")
    engine.until("ends", 0)
    time.sleep(3)  # Another worker may have begun it, too.
    runs = sum(row[2] == "begins" for row in engine.lines())
    since = len(engine.lines())
    engine.run("put", "killed")
    first = engine.until("begins", since)[0]
    time.sleep(1)
    victim = next(worker for worker in engine.workers if worker.pid == first[1])
    victim.kill()
    killed = time.time()
    rows = engine.until("begins", since, 2)
    again = [row[0] - killed for row in rows if row[2] == "begins"][1:]
    engine.until("ends", since)
    time.sleep(1)
    result = engine.run("result", "killed")
    engine.start_worker()
    time.sleep(2)
    since = len(engine.lines())
    engine.run("put", "cancelled")
    engine.until("begins", since)
    began = time.time()
    engine.run("cancel", "cancelled")
    rows = engine.until("cancelled", since, seconds=8)
    ended = [row[0] - began for row in rows if row[2] == "cancelled"]
    shown = f"{again[0]:.1f} s" if again else "never"
    return f"| {engine.name} | {runs} | {shown} | {result} | {f'{ended[0]:.1f} s' if ended else 'no'} |"


def main() -> None:
    """Run the engines, one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, default=None)
    packages = parser.parse_args().packages
    print("| engine | runs of a long job | after SIGKILL again | result | cancelled |\n|---|---|---|---|---|")
    for number, (name, requirements) in enumerate(ENGINES.items()):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            stack.enter_context(redis_server(folder, 21_800 + number))
            time.sleep(0.5)
            own = packages / name if packages else None
            if own is None:
                own = next(
                    (environment(f"queue-{name}", *requirements).parents[1] / "lib").glob("python*/site-packages")
                )
            engine = Engine(name, folder, 21_800 + number, own)
            try:
                print(measure(engine), flush=True)
            finally:
                for worker in engine.workers:
                    worker.kill()
                print((folder / "output").read_text()[-1500:], file=sys.stderr)


if __name__ == "__main__":
    main()
