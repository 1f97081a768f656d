"""Give mutated bytes to what reads the bytes of others: only documented errors, and nothing takes longer than 100 ms.

    python benchmarks/reliability/fuzz.py [TARGET …] [--inputs 20000] [--seed 1] [--jobs 1] [--atheris]

Inputs are seeds with changes that depend on `--seed` only, so that a case can be repeated. With `--atheris` one target
is run by that package (pip install atheris), which looks for inputs that reach new code: it keeps them in build/fuzz,
and beside them the first one that fails.
Prints for each target the number of inputs, microseconds an input, and the inputs that failed; ends with 1 if there are
any. With `--jobs` so many targets run at the same time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuzz_targets import Target

CORPUS = Path(__file__).resolve().parents[2] / "build" / "fuzz"  # The inputs that atheris keeps, by target.
MAX_SECONDS = 0.1  # Seconds of CPU for an input.
INSTRUMENTED = 5  # Code takes so many times as long when atheris follows it.
CHANGES = (1, 1, 2, 4, 8)  # How many changes an input has.
REPEATED = 0.05  # The share of inputs in which something is repeated up to 100 times.
SHOWN = 5  # Failed inputs of a target that are shown.
WORDS = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b"\n",
        b"\r",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b":",
        b",",
        b"null",
        b"1e999",
    ),
    *(
        b"\\ud800",
        b"-0",
        b"99999999999999999999",
        b"NaN",
        b"..",
        b"%2e%2e",
        b"%00",
        b"http://[::1",
        b"{+a}",
        b"__proto__",
    ),
    *(
        "\N{INFORMATION SOURCE}\u2028".encode(),
        b"[" * 300,
        b'{"a":' * 200,
        b"a" * 500,
        b"data: \n",
        b"/**",
        b"*/",
        b"| ",
    ),
)


def mutated(random: Random, seeds: list[bytes]) -> bytes:
    """Return a seed with a few changes, or the beginning of one and the end of another."""
    draw = random.random  # Methods such as `choice` take longer than some of the targets.
    data = bytearray(seeds[int(draw() * len(seeds))])
    for _ in range(CHANGES[int(draw() * len(CHANGES))]):
        at = int(draw() * (len(data) + 1))
        match int(draw() * 7):
            case 0:
                data[at : at + 1] = bytes((int(draw() * 256),))
            case 1:
                data[at:at] = WORDS[int(draw() * len(WORDS))]
            case 2:
                del data[at : at + 1 + int(draw() * 8)]
            case 3:
                data[at:at] = data[at : at + 1 + int(draw() * 39)]
            case 4:
                other = seeds[int(draw() * len(seeds))]
                data[at:] = other[int(draw() * (len(other) + 1)) :]
            case 5:
                data[at : at + 1 + int(draw() * 4)] = WORDS[int(draw() * len(WORDS))]
            case _:
                del data[at:]
    if draw() < REPEATED:  # This finds what costs more than its size allows.
        at = int(draw() * (len(data) + 1))
        data[at:at] = data[at : at + 1 + int(draw() * 15)] * int(draw() * 100)
    return bytes(data)


def failure(target: Target, data: bytes, limit: float = MAX_SECONDS) -> str | None:
    """Return what is wrong with the answer to an input; None if nothing is. `limit` is in seconds of CPU."""
    began = time.process_time()
    try:
        target.run(data)
    except target.errors:
        pass
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if (took := time.process_time() - began) > limit:
        return f"took {took:.2f} s"
    return None


def run(name: str, inputs: int, seed: int) -> dict[str, object]:
    """Give so many inputs to a target; return the figures."""
    from fuzz_targets import TARGETS

    target = TARGETS[name]
    random, seeds = Random(f"{seed} {name}"), list(target.seeds)
    failed: dict[str, str] = {}
    number, began = 0, time.process_time()
    for seed_input in seeds:
        if (problem := failure(target, seed_input)) is not None:
            failed[repr(seed_input)] = problem
    for number in range(1, inputs + 1):
        data = mutated(random, seeds)
        if (problem := failure(target, data)) is not None and len(failed) < SHOWN:
            failed[repr(data)] = problem
        if number % 50 == 0 and len(data) < 2000:
            seeds.append(data)  # Changes of changes.
            if len(seeds) > 200:
                seeds[len(target.seeds) :] = []
    return {"inputs": number, "µs": round((time.process_time() - began) / max(number, 1) * 1e6, 1), "failed": failed}


def run_atheris(name: str, inputs: int, seed: int) -> None:
    """Let atheris choose the inputs; it ends the program, with an error at the first that fails."""
    import atheris

    with atheris.instrument_imports(include=["mcp_runtime", "mcp_codegen"]):
        import fuzz_targets

    def once(data: bytes) -> None:
        if (problem := failure(fuzz_targets.TARGETS[name], data, MAX_SECONDS * INSTRUMENTED)) is not None:
            raise AssertionError(f"{problem}: {data!r}")

    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(fuzz_targets.TARGETS[name].seeds):
        (CORPUS / name / f"seed{number}").write_bytes(data)
    # The parser of TypeScript leaves 0.3 kB for each text: 3 GB for ten million.
    limits = ("-max_len=2048", "-rss_limit_mb=4096")
    options = (f"-runs={inputs}", f"-seed={seed}", *limits, f"-artifact_prefix={CORPUS / name}-")
    atheris.Setup([sys.argv[0], *options, str(CORPUS / name)], once)
    atheris.Fuzz()


def main() -> None:
    """Run the targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--atheris", action="store_true")
    options = parser.parse_args()
    if options.atheris:
        return run_atheris(options.targets[0], options.inputs, options.seed)
    from fuzz_targets import TARGETS

    names: list[str] = options.targets or [*TARGETS]
    counted: dict[str, dict[str, object]] = {}
    with ProcessPoolExecutor(options.jobs) as executor:
        for name, figures in zip(
            names, executor.map(run, names, repeat(options.inputs), repeat(options.seed)), strict=True
        ):
            counted[name] = figures
            print(name, figures, file=sys.stderr, flush=True)
    print(json.dumps(counted, indent=2, ensure_ascii=False))
    sys.exit(any(figures["failed"] for figures in counted.values()))


if __name__ == "__main__":
    main()
