"""Run `python -m examples.tasks`: primes.py."""

from examples.programs import run_program

run_program(__file__, "primes")
