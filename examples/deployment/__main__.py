"""Run `python -m examples.deployment`: server.py."""

from examples.programs import run_program

run_program(__file__, "server")
