"""Processes whose spans are lines of JSON in a file: `python traced_program.py SPANS KIND [ARGUMENTS]`.

KIND is `http` or `stdio` for a server, or `gateway` with a file of settings.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from mcp_generated import App, Gateway


class Lines(SpanExporter):
    """Writes a line for each span that has ended."""

    def __init__(self, file: Path, process: str) -> None:
        self._file = file
        self._process = process

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._file.open("a", encoding="utf-8") as file:
            for span in spans:
                file.write(json.dumps(line_of(span, self._process)) + "\n")
        return SpanExportResult.SUCCESS


def line_of(span: ReadableSpan, process: str) -> dict[str, object]:
    """What a test reads of a span."""
    assert span.context is not None
    return {
        "process": process,
        "name": span.name,
        "kind": span.kind.name,
        "trace": f"{span.context.trace_id:032x}",
        "span": f"{span.context.span_id:016x}",
        "parent": None if span.parent is None else f"{span.parent.span_id:016x}",
        "state": span.context.trace_state.to_header(),
        "attributes": {key: value for key, value in (span.attributes or {}).items()},
    }


def server() -> App:
    app = App("traced")

    @app.tool
    def work(text: str) -> str:
        with trace.get_tracer("tool").start_as_current_span("working"):
            return f"{text} {dict(baggage.get_all())}"

    return app


if __name__ == "__main__":
    spans, kind, *arguments = sys.argv[1:]
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Lines(Path(spans), kind)))
    trace.set_tracer_provider(provider)
    if kind == "stdio":
        server().run()
    elif kind == "http":
        server().run("http", port=0)
    else:
        Gateway(arguments[0]).run("http", port=0)
