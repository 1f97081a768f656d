"""The URIs of resources of a mounted app: `scheme://path` is `scheme://prefix/path` outside."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.protocol.uris import is_same_uri, leaves_directory, spelled, tidy_uri

from .named_things import UnknownItemError

_TO_URIS: Final = ("messages", "content", "resource", "uri")  # What has the URIs of a result, or of a part of one.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:(?://)?)(.*)", re.DOTALL)
Value = str | list[str]

_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_OPERATOR: Final = re.compile(r"([+#./;?&]?)(.*)", re.DOTALL)
_VARIABLE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\*?)")
_URI_TEMPLATES_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SPELLED_HOST: Final = re.compile(r"[^:{]+://[^/?#{]*(?:$|[/?#]|\{[/?#])")  # Compared without its case.
_PATH_PARAMETER: Final = re.compile(r";([^;/?#=]*)(=[^;/?#]*)?")
_HELD: Final = re.compile(r"\x00(\d+)\x00")
_ENDS: Final = {";": "/?#;", "?": "&#", "&": "&#"}  # What can stand after a value that has a name.
_SEPARATORS: Final = {"": ",", "+": ",", "/": "/", ".": "."}
_MAX_LENGTH: Final = 8192  # Characters of a URI.


def is_https_url(uri: str) -> bool:
    """Return True if clients may fetch a resource themselves: this is the meaning of the `https://` scheme.

    Treat URLs of untrusted servers as untrusted input: they may point into a private network.
    https://modelcontextprotocol.io/specification/draft/server/resources#common-uri-schemes
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.netloc)


def add_prefix(prefix: str, uri: str) -> str:
    """Return `scheme://path` as `scheme://prefix/path`; https URLs and an empty prefix change nothing."""
    match = None if not prefix or is_https_url(uri) else _SCHEME.fullmatch(uri)
    return uri if match is None else f"{match[1]}{prefix}/{match[2]}"


def strip_prefix(prefix: str, uri: str) -> str | None:
    """Return the URI inside of the mounted app; None if the resource is not one of that app."""
    if not prefix or is_https_url(uri):
        return uri
    match = _SCHEME.fullmatch(uri)
    first, slash, rest = ("", "", "") if match is None else match[2].partition("/")
    if match is None or not slash:
        return None
    if "/" in prefix:
        start = f"{prefix}/"
        return match[1] + match[2][len(start) :] if match[2].startswith(start) else None
    return match[1] + rest if first == prefix or _is_same_segment(first, prefix, match[1].endswith("//")) else None


def _is_same_segment(first: str, second: str, is_host: bool) -> bool:
    """Return True if two texts are spellings of one segment; after `//` a segment is a host, which has no case."""
    first, second = spelled(first), spelled(second)
    return first == second or (is_host and first.lower() == second.lower())


def strip_name_prefix(prefix: str, name: str) -> str | None:
    """Return the name inside of the mounted app; None if it has another prefix."""
    if not prefix:
        return name
    return name[len(prefix) + 1 :] if name.startswith(f"{prefix}_") else None


def with_prefixed_name(prefix: str, definition: Any) -> Any:
    """Return a definition with the name that it has outside of the mounted app, and the URI of its view there."""
    if not prefix:
        return definition
    update: dict[str, Any] = {"name": f"{prefix}_{definition.name}"}
    meta: Any = definition.meta or {}
    ui: Any = meta.get("ui")
    if is_object(ui) and isinstance(uri := ui.get("resourceUri"), str):
        meta = update["meta"] = {**meta, "ui": {**ui, "resourceUri": add_prefix(prefix, uri)}}
    if isinstance(uri := meta.get("ui/resourceUri"), str):  # Its former place.
        update["meta"] = {**meta, "ui/resourceUri": add_prefix(prefix, uri)}
    return definition.model_copy(update=update)


def with_prefixed_uri(result: Any, uri: str, prefixed: str, prefix: str = "") -> Any:
    """Return the result of a mounted app with the URI of the request, and the prefix in other URIs."""
    contents: list[Any] | None = getattr(result, "contents", None)
    if contents is None:
        return result
    uris = [prefixed if is_same_uri(item.uri, uri) else add_prefix(prefix, item.uri) for item in contents]
    renamed = [item.model_copy(update={"uri": new}) for item, new in zip(contents, uris, strict=True)]
    return result.model_copy(update={"contents": renamed})


def with_prefixed_links(prefix: str, value: Any) -> Any:
    """Return the result of a mounted app, or a part of one, with the prefix in the URIs of its resources."""
    if isinstance(value, str):
        return add_prefix(prefix, value)
    if is_list(value):
        return [with_prefixed_links(prefix, item) for item in value]
    kind = cast("Any", type(value))
    field = next((name for name in _TO_URIS if name in getattr(kind, "model_fields", ())), None)
    if not prefix or field is None:
        return value
    return value.model_copy(update={field: with_prefixed_links(prefix, getattr(value, field))})


# URI templates (RFC 6570): match a URI against a template, and extract the values of its variables.
#
# All operators are read: `{x}`, `{x,y}`, `{+x}`, `{x*}`, `{/x}`, `{.x}`, `{;x}`, `{?x,y}`, `{&x}` and `{#x}`. What the
# template spells out is compared as URIs are (`protocol.uris`); the values are what the client has expanded. A template
# whose values could not be told apart is refused, such as one with `{x:3}`, `{x}{y}` or `{+x,y}`. Matching takes linear
# time: of several ways to match, the one with the shortest first values counts.
#
# A value that stands in the path of a URI may not lead out of its directory (`leaves_directory`); our clients send none
# that does. Values of the query, of `{;x}` and of the fragment are checked in the same way where they are paths of
# files: where the scheme is `file`, and for parameters of the type `Path`. A template that is not told which those are
# (`read_as`) checks all.


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of a template."""

    name: str
    operator: str
    exploded: bool
    in_path: bool

    @property
    def spans(self) -> bool:
        """True if its value may span several segments of the path."""
        return self.operator == "+" or (self.exploded and self.operator in ("", "/"))


@dataclass(frozen=True, slots=True)
class _Place:
    """A variable in the path, and the text after it, as the template has it and as it is compared."""

    variable: _Variable
    written: str = ""
    after: str = ""


class URITemplate:
    """A URI template, or a URI without variables."""

    def __init__(self, text: str) -> None:
        """Parse a template. Raises LocalError for one that cannot be matched, and for a URI without a scheme."""
        self.text = text
        if not _URI_TEMPLATES_SCHEME.match(text):
            raise LocalError(
                f"resource(): {text!r} is not a resource URI: it has no scheme: write {f'data://{text}'!r}"
            )
        if "\0" in text:
            raise LocalError(f"resource(): {text!r} is not a resource URI: it has a NUL character; remove it")
        self._form = form = _Parser(text)
        self.names: tuple[str, ...] = tuple(form.names)
        """The names of the variables, in the order of the template."""
        self.optional: frozenset[str] = frozenset(form.optional)
        """The variables that a URI may omit: those of the query, of path parameters and of the fragment."""
        self._is_file = text[:5].lower() == "file:"
        self._lists: Collection[str] = ()
        self._paths: Collection[str] = self.names
        self._folds_host = _SPELLED_HOST.match(text) is not None
        self._start = tidy_uri(self._form.before, folds_host=self._folds_host)

    def read_as(self, *, lists: Collection[str], paths: Collection[str]) -> None:
        """Read some variables as lists, and check some as paths of files, wherever they stand."""
        self._lists = lists
        self._paths = paths

    def match(self, uri: str) -> dict[str, Value] | None:
        """Return the decoded values of the variables, None if the URI does not match.

        Raises JSONRPCError (invalid params) for a value that leads out of its directory, such as `..`.
        """
        values: dict[str, Value] = {}
        return None if self._read(uri, values) is None else values

    def written_as(self, uri: str) -> str:
        """Return a URI that matches, with what the template spells out spelled as in the template."""
        raw = self._read(uri, {})
        if raw is None:
            return uri
        if self._form.path_parameters:  # They may stand anywhere in the path.
            return tidy_uri(uri)
        texts = (text + place.written for place, text in zip(self._form.places, raw, strict=True))
        base, _, fragment = tidy_uri(uri).partition("#")
        _, mark, query = base.partition("?") if self._form.has_query else ("", "", "")
        return self._form.before + "".join(texts) + mark + query + (f"#{fragment}" if self._form.fragment else "")

    def _read(self, uri: str, values: dict[str, Value]) -> list[str] | None:
        """Add the values of a URI. Return the text of each variable of the path, None if the URI does not match."""
        if len(uri) > _MAX_LENGTH:
            return None
        base, _, fragment = tidy_uri(uri, folds_host=self._folds_host).partition("#")
        path, mark, query = base.partition("?")
        if mark and not self._form.has_query:
            if not (self._form.places and self._form.places[-1].variable.operator == "+"):
                return None
            path, query = base, ""  # RFC 6570 allows a question mark in the value of `{+x}`.
        if self._form.path_parameters:
            path = self._without_parameters(path, values, uri)
        raw = self._split_path(path)
        if raw is None:
            return None
        for place, text in zip(self._form.places, raw, strict=True):
            values[place.variable.name] = self._value(place.variable, [text], uri)
        if self._form.has_query and not self._read_query(query, values, uri):
            return None
        return raw if self._form.fragment is None or self._read_fragment(fragment, values, uri) else None

    # ---- the path ---------------------------------------------------------------------------------------------------

    def _split_path(self, path: str) -> list[str] | None:
        """Return the text of each variable of the path; None if it does not match.

        Up to the first variable that spans segments it is read from the left, after the last one from the right, and
        what is between, with the shortest texts.
        """
        if not path.startswith(self._start):
            return None
        places = self._form.places
        begin, end = len(self._start), len(path)
        if not places:
            return [] if begin == end else None
        spanning = [number for number, place in enumerate(places) if place.variable.spans]
        last = spanning[-1] if spanning else len(places) - 1
        ends: list[str] = []
        for number in range(len(places) - 1, last, -1):
            after, before = places[number].after, places[number - 1].after
            if not path.endswith(after, begin, end):
                return None
            stop = end - len(after)
            start = path.rfind(before, begin, stop - 1) + len(before)
            if start < begin + len(before):
                return None
            ends.append(path[start:stop])
            end = start
        # What is left ends with the text after the last variable that is read from the left.
        if not path.endswith(places[last].after, begin, end):
            return None
        end -= len(places[last].after)
        raw: list[str] = []
        for place in places[:last]:
            stop = path.find(place.after, begin + 1, end)
            if stop < 0:
                return None
            raw.append(path[begin:stop])
            begin = stop + len(place.after)
        raw.append(path[begin:end] if begin <= end else "")
        raw += reversed(ends)
        fits = all(text and (place.variable.spans or "/" not in text) for place, text in zip(places, raw, strict=True))
        return raw if fits else None

    def _without_parameters(self, path: str, values: dict[str, Value], uri: str) -> str:
        """Return a path without the parameters `;name=value` of the template, and add their values."""
        found: dict[str, list[str]] = {}

        def take(match: re.Match[str]) -> str:
            name = unquote(match[1])
            if name not in self._form.path_parameters:
                return match[0]
            found.setdefault(name, []).append((match[2] or "")[1:])
            return ""

        path = _PATH_PARAMETER.sub(take, path)
        values |= {name: self._value(self._form.path_parameters[name], texts, uri) for name, texts in found.items()}
        return path

    # ---- the query and the fragment ---------------------------------------------------------------------------------

    def _read_query(self, query: str, values: dict[str, Value], uri: str) -> bool:
        """Add the values of the query; return False if it lacks something that the template spells out."""
        found: dict[str, list[str]] = {}
        for parameter in query.split("&") if query else ():
            name, _, text = parameter.partition("=")
            found.setdefault(unquote(name), []).append(text)
        if any(text not in found.get(name, ()) for name, text in self._form.fixed):
            return False
        for name, variable in self._form.query.items():
            texts = found.get(name)
            if texts is not None:
                spaced = texts if variable.operator == "+" else [text.replace("+", " ") for text in texts]
                values[variable.name] = self._value(variable, spaced, uri)
            elif variable.name not in self.optional:
                return False
        return True

    def _read_fragment(self, fragment: str, values: dict[str, Value], uri: str) -> bool:
        if isinstance(self._form.fragment, str):
            return fragment == self._form.fragment
        if self._form.fragment is not None and fragment:
            values[self._form.fragment.name] = self._value(self._form.fragment, [fragment], uri)
        return True

    # ---- values -----------------------------------------------------------------------------------------------------

    def _value(self, variable: _Variable, texts: list[str], uri: str) -> Value:
        """Return the value of a variable. Raises JSONRPCError if it is not UTF-8, or leaves its directory."""
        if variable.name not in self._lists:
            return self._decoded(variable, texts[-1], uri)
        if not variable.exploded:
            texts = texts[-1].split(",")
        elif variable.operator in _SEPARATORS:
            texts = texts[-1].split(_SEPARATORS[variable.operator])
        return [self._decoded(variable, text, uri) for text in texts]

    def _decoded(self, variable: _Variable, text: str, uri: str) -> str:
        try:
            value = unquote(text, errors="strict")
        except UnicodeDecodeError:
            raise UnknownItemError("resources", uri, " is not UTF-8") from None
        if variable.in_path:
            leaves = leaves_directory(value, variable.spans)
        else:
            is_path = self._is_file or variable.name in self._paths
            leaves = is_path and bool(value) and leaves_directory(value, spans=True)
        if leaves:
            raise UnknownItemError("resources", uri, " has path traversal")
        return value


def may_serve(uri_template: str, uri: str) -> bool:
    """Return True if a template of another server can have a URI: it matches, or begins as a template does that cannot
    be matched here. Raises JSONRPCError for a value that leads out of its directory."""
    try:
        template = URITemplate(uri_template)
        template.read_as(lists=(), paths=())  # Its server knows which of them are paths.
        return template.match(uri) is not None
    except LocalError:
        start = uri_template.partition("{")[0]
        is_more_than_a_scheme = _URI_TEMPLATES_SCHEME.sub("", start, count=1).strip("/") != ""
        return is_more_than_a_scheme and tidy_uri(uri).startswith(tidy_uri(start))


class _Parser:
    """The parts of a template. Raises LocalError for one whose values cannot be read back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.before = ""
        self.places: list[_Place] = []
        self.path_parameters: dict[str, _Variable] = {}
        self.query: dict[str, _Variable] = {}
        self.fixed: list[tuple[str, str]] = []
        self.fragment: _Variable | str | None = None
        self.names: list[str] = []
        self.optional: list[str] = []
        self.has_query = False
        self._section = "path"
        self._last = ""  # The operator of the expression before what is read.
        self._held: list[_Variable] = []  # Variables of the query that the template names: `?ref={x}`.
        self._query_text = ""
        pieces = _EXPRESSION.split(text)
        for number, piece in enumerate(pieces):
            if number % 2:
                self._expression(piece)
            elif "{" in piece or "}" in piece:
                raise self._error(
                    "add the missing brace of a pair, or write %7B, %7D", f"{text!r} is not a URI template"
                )
            else:
                self._literal(piece)
                self._last = self._last if piece == "" else ""
        self._read_query()
        if len({*self.names}) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise LocalError(f"resource(): {text!r} has the variable {twice!r} twice: rename one")
        if self.path_parameters and any(place.variable.operator == "+" for place in self.places):
            raise self._error("the value of {+…} could have the text of {;…}: write {?…}")

    def _error(self, remedy: str, fault: str = "") -> LocalError:
        return LocalError(f"resource(): {fault or f'{self._text!r} cannot be matched'}: {remedy}")

    # ---- texts ------------------------------------------------------------------------------------------------------

    def _literal(self, text: str) -> None:
        if text and self._last in _ENDS and text[0] not in _ENDS[self._last]:
            raise self._error(
                f"{text!r} would be a part of the value before it: begin it with one of {_ENDS[self._last]}"
            )
        if self._section == "path":
            text, mark, rest = _cut(text)
            self._add_literal(text)
            if mark == "?":
                self._section = "query"
                self.has_query = True
                text = rest
            elif mark == "#":
                self._section = "fragment"
                text = f"#{rest}"
        if self._section == "query":
            query, mark, rest = text.partition("#")
            self._query_text += query
            if mark:
                self._section = "fragment"
                text = f"#{rest}"
        if self._section == "fragment" and text:
            if self.fragment is not None or not text.startswith("#"):
                raise self._error("the fragment is one text, or one variable at the end")
            self.fragment = spelled(text[1:])

    def _add_literal(self, text: str) -> None:
        if self.places:
            last = self.places[-1]
            written = last.written + text
            self.places[-1] = _Place(last.variable, written, spelled(written))
        else:
            self.before += text

    # ---- expressions ------------------------------------------------------------------------------------------------

    def _expression(self, inner: str) -> None:
        match = _OPERATOR.fullmatch(inner)
        assert match is not None, "the operator may be absent"
        operator, names = match.groups()
        if self._last == ";" and operator in ("", "+", "."):
            raise self._error(f"{{{inner}}} would be a part of the value before it: write / between them")
        self._last = operator
        variables: list[_Variable] = []
        for text in names.split(","):
            named = _VARIABLE.fullmatch(text)
            if named is None:
                rule = "supported are {name}, {name*} and the operators of RFC 6570, as in {+name}, without lengths"
                raise LocalError(f"resource(): {self._text!r}: {{{inner}}} cannot be matched; {rule}")
            in_path = self._section == "path" and operator in ("", "+", "/", ".")
            variables.append(_Variable(named[1], operator, named[2] == "*", in_path))
        self.names += (variable.name for variable in variables)
        if operator in ("+", "#") and len(variables) > 1:
            raise self._error(f"a value of {{{inner}}} may have a comma: write an expression for each variable")
        match operator:
            case "?" | "&":
                self._named(operator, variables)
            case ";" if self._section == "path":
                self.optional += (variable.name for variable in variables)
                self.path_parameters |= {variable.name: variable for variable in variables}
            case "#" if self.fragment is None:
                self._section = "fragment"
                self.fragment = variables[0]
                self.optional.append(variables[0].name)
            case "" | "+" if self._section == "fragment" and self.fragment == "" and len(variables) == 1:
                self.fragment = variables[0]
            case "" | "+" if self._section == "query" and len(variables) == 1:
                self._query_text += f"\0{len(self._held)}\0"
                self._held += variables
            case "" | "+" | "/" | "." if self._section == "path":
                self._in_path(inner, operator, variables)
            case _:
                raise self._error(f"{{{inner}}} cannot stand in the {self._section}")

    def _named(self, operator: str, variables: list[_Variable]) -> None:
        if self._section == "fragment" or (operator == "?") is self.has_query:
            raise self._error("a query begins with one ?, and goes on with {&…}: write {?x,y}, or ?x=1{&y}")
        if operator == "&" and not self._query_text:
            raise self._error("without the variables before it there is no ?: write one {?x,y}")
        self._section = "query"
        self.has_query = True
        self.optional += (variable.name for variable in variables)
        self.query |= {variable.name: variable for variable in variables}

    def _in_path(self, inner: str, operator: str, variables: list[_Variable]) -> None:
        separator = _SEPARATORS[operator]
        for number, variable in enumerate(variables):
            if operator in ("/", ".") or number:
                self._add_literal(separator)
            elif self.places and self.places[-1].after == "":
                reason = f"there must be text between {{{inner}}} and the variable before it, such as /"
                raise LocalError(f"resource(): {self._text!r}: {reason}")
            self.places.append(_Place(variable))

    def _read_query(self) -> None:
        """Read the assignments of the query that the template spells out."""
        for assignment in filter(None, self._query_text.split("&")):
            name, _, text = assignment.partition("=")
            held = _HELD.fullmatch(text)
            if held is not None and not _HELD.search(name):
                self.query[unquote(name)] = self._held[int(held[1])]
            elif _HELD.search(assignment):
                raise self._error("a variable of the query is the whole value of a name: write ?name={x}")
            else:
                self.fixed.append((unquote(name), spelled(text)))


def _cut(text: str) -> tuple[str, str, str]:
    """Return a text up to a question mark or a hash, that character, and the rest."""
    end = next((index for index, character in enumerate(text) if character in "?#"), len(text))
    return text[:end], text[end : end + 1], text[end + 1 :]
