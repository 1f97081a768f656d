"""Run `python -m examples.gateway`: office.py."""

from examples.programs import run_program

run_program(__file__, "office")
