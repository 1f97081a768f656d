"""The plugin for Java: its validator has the verdict of the schema on all test vectors, and its types lose nothing."""

from __future__ import annotations

import shutil

import pytest
from support.installation.builds import build_once
from support.languages import equal_examples, write_revisions, wrong_verdicts
from support.project import needs_official

from mcp_generated import REVISIONS

CASE = """            case "%(revision)s" -> mcp.%(name)s.Schema.parse(type, json);
"""
MAIN = r"""import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import mcp.%(newest)s.Schema;

public class Main {
    static Object parse(Object revision, String type, String json) {
        return switch ((String) revision) {
%(cases)s            default -> throw new IllegalStateException("no revision " + revision);
        };
    }

    static void useAccessors(Object value) throws ReflectiveOperationException {
        for (var part : value.getClass().getDeclaredMethods()) {
            if (part.getParameterCount() == 0 && java.lang.reflect.Modifier.isPublic(part.getModifiers())) {
                part.invoke(value);
            }
        }
    }

    static String written(Object value) throws ReflectiveOperationException {
        if (value instanceof Record record) {
            useAccessors(record);
            value = record.getClass().getMethod("json").invoke(record);
        }
        return Schema.write(value);
    }

    public static void main(String[] words) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String text = lines.readLine(); text != null; text = lines.readLine()) {
            Map<?, ?> line = (Map<?, ?>) Schema.read(text);
            try {
                String json = Schema.write(line.get("instance"));
                Object value = parse(line.get("revision"), (String) line.get("type"), json);
                out.println("{\"written\":" + written(value) + "}");
            } catch (IllegalArgumentException error) {
                out.println(Schema.write(Map.of("error", error.getMessage())));
            }
        }
        out.flush();
    }
}
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A program that reads instances with the Java that the plugin writes for each revision."""
    java, javac = shutil.which("java"), shutil.which("javac")
    if java is None or javac is None:
        pytest.skip("no Java compiler: `java` and `javac` are not both on the PATH")
    folder = tmp_path_factory.mktemp("java")
    write_revisions("java.py", folder / "mcp")
    cases = "".join(CASE % {"revision": revision, "name": name} for revision, name in REVISIONS.items())
    source = MAIN % {"cases": cases, "newest": REVISIONS[max(REVISIONS)]}
    (folder / "Main.java").write_text(source, encoding="utf-8")
    out = build_once("plugin-java", folder, [(javac, "-encoding", "UTF-8", "-d", "{out}", "Main.java")])
    return [java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", str(out), "Main"]


@pytest.mark.exhaustive
def test_java_has_the_verdict_of_the_schema_on_all_vectors_and_writes_what_it_reads(judge: list[str]) -> None:
    assert wrong_verdicts(judge) == []


@pytest.mark.exhaustive
@needs_official
def test_java_reads_and_writes_the_official_examples(judge: list[str]) -> None:
    assert equal_examples(judge) == 129
