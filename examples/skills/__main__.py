"""Run `python -m examples.skills`: client.py, or the program that the first argument names."""

from examples.programs import run_program

run_program(__file__, "client", "server")
