package mcp;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** Reads JSON as the types of the schema, strictly as the schema has them, and writes it. */
public final class Schema {
    /** A message: who sends it, and the types of its params and of its result, if it has any. */
    public record Method(String method, String kind, String direction, String params, String result, String capability) {}

    private static final Map<String, Object> TABLE = object(new Reader(Tables.SHAPES).document());

    /** Return what JSON has: a map, a list, a text, a boolean, a decimal or null. */
    public static Object read(String json) {
        return new Reader(json).document();
    }

    /** Return a value of a type, read from JSON that the schema accepts: a record, or for an alias what JSON has. */
    public static Object parse(String name, String json) {
        Object value = new Reader(json).document();
        check(name, value);
        Function<Object, Object> maker = Tables.MAKERS.get(name);
        return maker == null ? value : maker.apply(value);
    }

    /** Throw an error that names the first place where a JSON value is not of a type. */
    public static void check(String name, Object value) {
        if (!TABLE.containsKey(name)) {
            throw new IllegalArgumentException("the schema has no type " + name);
        }
        String wrong = wrong(object(TABLE.get(name)), value, name);
        if (wrong != null) {
            throw new IllegalArgumentException(wrong);
        }
    }

    private static String wrong(Map<String, Object> shape, Object value, String at) {
        String is = (String) shape.get("is");
        switch (is) {
            case "any":
                return null;
            case "ref":
                return wrong(object(TABLE.get(shape.get("name"))), value, at);
            case "values":
                boolean listed = array(shape.get("values")).stream().anyMatch(one -> same(one, value));
                return listed ? null : at + ": " + value + " is not one of " + shape.get("values");
            case "union":
                boolean fits = array(shape.get("arms")).stream().anyMatch(arm -> wrong(object(arm), value, at) == null);
                return fits ? null : at + ": " + value + " matches no arm of a union";
            case "null":
                return value == null ? null : at + ": is not null";
            default:
        }
        if (value instanceof Boolean && is.equals("boolean")) {
            return null;
        }
        if (value instanceof String text && is.equals("string")) {
            return length(shape, text.codePointCount(0, text.length()), "length", at);
        }
        if (value instanceof BigDecimal number && (is.equals("number") || is.equals("integer") && isWhole(number))) {
            return range(shape, number, at);
        }
        if (value instanceof List<?> items && is.equals("array")) {
            int index = 0;
            for (Object item : items) {
                String wrong = wrong(object(shape.get("items")), item, at + "[" + index++ + "]");
                if (wrong != null) {
                    return wrong;
                }
            }
            return length(shape, items.size(), "items", at);
        }
        if (value instanceof Map<?, ?> && (is.equals("object") || is.equals("map"))) {
            return members(shape, object(value), at);
        }
        return at + ": " + value + " is not of the type " + is;
    }

    private static String members(Map<String, Object> shape, Map<String, Object> given, String at) {
        boolean isMap = shape.get("is").equals("map");
        for (Object name : isMap ? List.of() : array(shape.get("required"))) {
            if (!given.containsKey(name)) {
                return at + ": " + name + " is missing";
            }
        }
        for (Map.Entry<String, Object> member : given.entrySet()) {
            Object form = isMap ? shape.get("items") : object(shape.get("fields")).get(member.getKey());
            if (form == null && Boolean.TRUE.equals(shape.get("closed"))) {
                return at + ": the schema has no property " + member.getKey();
            }
            String wrong = form == null ? null : wrong(object(form), member.getValue(), at + "." + member.getKey());
            if (wrong != null) {
                return wrong;
            }
        }
        return null;
    }

    private static String length(Map<String, Object> shape, int count, String what, String at) {
        return range(shape.get("min_" + what), shape.get("max_" + what), BigDecimal.valueOf(count), at);
    }

    private static String range(Map<String, Object> shape, BigDecimal number, String at) {
        return range(shape.get("minimum"), shape.get("maximum"), number, at);
    }

    private static String range(Object least, Object most, BigDecimal number, String at) {
        boolean low = least instanceof BigDecimal bound && number.compareTo(bound) < 0;
        boolean high = most instanceof BigDecimal bound && number.compareTo(bound) > 0;
        return low || high ? at + ": " + number + " is outside its range" : null;
    }

    private static boolean isWhole(BigDecimal number) {
        return number.signum() == 0 || number.stripTrailingZeros().scale() <= 0;
    }

    private static boolean same(Object allowed, Object value) {
        if (allowed instanceof BigDecimal left && value instanceof BigDecimal right) {
            return left.compareTo(right) == 0;
        }
        return allowed == null ? value == null : allowed.equals(value);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    private static List<?> array(Object value) {
        return (List<?>) value;
    }

    static <T> List<T> list(Object value, Function<Object, T> read) {
        if (value == null) {
            return null;
        }
        List<T> items = new ArrayList<>();
        array(value).forEach(item -> items.add(read.apply(item)));
        return items;
    }

    static <T> Map<String, T> map(Object value, Function<Object, T> read) {
        if (value == null) {
            return null;
        }
        Map<String, T> members = new LinkedHashMap<>();
        object(value).forEach((name, item) -> members.put(name, read.apply(item)));
        return members;
    }

    /** Return the JSON text of a JSON value, or of a record of the schema. */
    public static String write(Object value) {
        if (value instanceof Map<?, ?> members) {
            List<String> parts = new ArrayList<>();
            members.forEach((name, item) -> parts.add(quoted((String) name) + ":" + write(item)));
            return "{" + String.join(",", parts) + "}";
        }
        if (value instanceof List<?> items) {
            return "[" + String.join(",", items.stream().map(Schema::write).toList()) + "]";
        }
        if (value instanceof Record record) {
            try {
                return write(record.getClass().getMethod("json").invoke(record));
            } catch (ReflectiveOperationException error) {
                throw new IllegalArgumentException(record + " is no record of the schema", error);
            }
        }
        return value instanceof String text ? quoted(text) : String.valueOf(value);
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            if (one == '"' || one == '\\') {
                out.append('\\').append(one);
            } else if (one < ' ' || Character.isSurrogate(one)) {
                out.append(String.format("\\u%04x", (int) one));
            } else {
                out.append(one);
            }
        }
        return out.append('"').toString();
    }

    /** Reads JSON as maps, lists, texts, booleans, decimals and null. */
    private static final class Reader {
        private final String text;
        private int at;

        Reader(String text) {
            this.text = text;
        }

        Object document() {
            Object value = value();
            if (peek() != 0) {
                throw wrong("the end");
            }
            return value;
        }

        private IllegalArgumentException wrong(String expected) {
            return new IllegalArgumentException("JSON has not " + expected + " at character " + at);
        }

        private char peek() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
            return at < text.length() ? text.charAt(at) : 0;
        }

        private boolean takes(char wanted) {
            boolean there = peek() == wanted;
            at += there ? 1 : 0;
            return there;
        }

        private void need(char wanted) {
            if (!takes(wanted)) {
                throw wrong("'" + wanted + "'");
            }
        }

        private Object value() {
            switch (peek()) {
                case '{':
                    return members();
                case '[':
                    return items();
                case '"':
                    return string();
                default:
            }
            int start = at;
            while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
                at++;
            }
            String word = text.substring(start, at);
            switch (word) {
                case "null":
                    return null;
                case "true":
                    return true;
                case "false":
                    return false;
                default:
            }
            if (!word.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
                throw wrong("a value");
            }
            return new BigDecimal(word);
        }

        private Map<String, Object> members() {
            Map<String, Object> members = new LinkedHashMap<>();
            need('{');
            for (boolean more = !takes('}'); more; more = !takes('}')) {
                if (!members.isEmpty()) {
                    need(',');
                }
                peek();
                String name = string();
                need(':');
                members.put(name, value());
            }
            return members;
        }

        private List<Object> items() {
            List<Object> items = new ArrayList<>();
            need('[');
            for (boolean more = !takes(']'); more; more = !takes(']')) {
                if (!items.isEmpty()) {
                    need(',');
                }
                items.add(value());
            }
            return items;
        }

        private String string() {
            need('"');
            StringBuilder out = new StringBuilder();
            while (at < text.length() && text.charAt(at) != '"') {
                char one = text.charAt(at++);
                if (one < ' ') {
                    throw wrong("an escaped control character");
                }
                out.append(one == '\\' ? escaped() : one);
            }
            if (at++ >= text.length()) {
                throw wrong("the end of a text");
            }
            return out.toString();
        }

        private char escaped() {
            int known = at < text.length() ? "\"\\/bfnrt".indexOf(text.charAt(at)) : -1;
            if (known >= 0) {
                at++;
                return "\"\\/\b\f\n\r\t".charAt(known);
            }
            if (at + 5 > text.length() || !text.substring(at, at + 5).matches("u[0-9a-fA-F]{4}")) {
                throw wrong("an escape");
            }
            at += 5;
            return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        }
    }
}
