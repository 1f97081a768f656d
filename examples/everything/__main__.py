"""Run `python -m examples.everything`: app.py, or the program that the first argument names."""

from examples.programs import run_program

run_program(__file__, "app", "server")
