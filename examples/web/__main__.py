"""Run `python -m examples.web`: legacy_sse.py, or the program that the first argument names."""

from examples.programs import run_program

run_program(__file__, "legacy_sse", "fastapi_app")
