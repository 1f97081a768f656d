"""One Python module: its names, calls and strings in the words of this project, and marks where that is not certain."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import libcst as cst
from libcst.metadata import MetadataWrapper

from .names import COMPAT, PACKAGES, TYPES, Form, Goal, ImportLines, Names, Place, Rule, Tables, dotted, import_of
from .report import Mark

# What a comment can stand before. A decorator is a part of what it decorates.
_STATEMENTS: Final = frozenset(
    {cst.SimpleStatementLine, cst.If, cst.For, cst.While, cst.Try, cst.TryStar, cst.With, cst.Match}
    | {cst.FunctionDef, cst.ClassDef, cst.ExceptHandler, cst.ExceptStarHandler}
)
_PATH: Final = re.compile(r"(?:mcp|mcp_types|fastmcp)(?:\.[A-Za-z_]\w*)*")
_CODE: Final = re.compile(r"^\s*(?:from|import)\s+(?:mcp|mcp_types|fastmcp)\b", re.MULTILINE)
_PARTS: Final = 2  # A word with a dot; "mcp" alone is the name of many things.


class SourceEdit(cst.CSTTransformer):
    """The changes of one module."""

    def __init__(
        self,
        wrapper: MetadataWrapper,
        tables: Tables,
        form: Form,
        goal: Goal,
        known: Mapping[str, str],
        older: Sequence[str] = (),
    ) -> None:
        """Prepare the changes of a module.

        Args:
            wrapper: The module with its metadata.
            tables: The tables of the migration.
            form: The major version of the SDK that it was written for.
            goal: What it becomes.
            known: Kinds of names that it imports from other modules of the project.
            older: The tables of rules for what an older release of the SDK did otherwise.
        """
        super().__init__()
        self._tables = tables
        self._form: Form = form
        self._goal: Goal = goal
        self._added = ("constructor", "native", *older)
        self.names = Names(wrapper, tables, known)
        self.changes: Counter[str] = Counter()
        self.marks: list[Mark] = []
        self._lines = ImportLines(tables, form, self.names.used, self._chosen, self._why)
        self._pending: list[list[Mark]] = []
        self._emitted: set[str] = set()
        self.extra: dict[Place, str] = {}
        self._renamed: dict[str, str] = {}
        self._inner: set[cst.CSTNode] = set()
        self._chained: set[cst.CSTNode] = set()  # `server.settings` of `server.settings.lifespan`, which a rule is for.
        self._handled: set[cst.CSTNode] = set()  # Strings of calls that are changed or marked there.
        self._awaited: set[cst.CSTNode] = set()
        self._tools: set[cst.CSTNode] = set()  # Calls that make the only argument of `add_tool` of a native app.
        self._bases: list[str] = []  # Kinds of the bases of the classes around.
        self._handlers = 0
        self._depth = 0
        self._header = {line.comment.value for line in wrapper.module.header if line.comment is not None}

    # ---- marks ------------------------------------------------------------------------------------------------------

    def mark(self, node: cst.CSTNode, reason: str, link: str) -> None:
        """Mark the statement that a node stands in."""
        mark = Mark(self.names.line(node), reason, link)
        if self._pending and mark.reason not in (other.reason for other in self._pending[-1]):
            self._pending[-1].append(mark)
            self.marks.append(mark)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if type(node) in _STATEMENTS:
            self._pending.append([])
        return super().on_visit(node)

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        left = super().on_leave(original_node, updated_node)
        if type(original_node) not in _STATEMENTS:
            return left
        marks = self._pending.pop()
        if not marks:
            return left
        if isinstance(left, cst.FlattenSentinel):
            statements: list[cst.CSTNode] = [*left]
            first, *rest = statements
            return cst.FlattenSentinel([self._commented(first, marks), *rest])
        return self._commented(left, marks)

    def _commented(self, node: Any, marks: Sequence[Mark]) -> cst.CSTNode:
        there = {line.comment.value for line in node.leading_lines if line.comment is not None} | self._header
        new = [cst.EmptyLine(comment=cst.Comment(mark.comment)) for mark in marks if mark.comment not in there]
        commented: cst.CSTNode = node.with_changes(leading_lines=[*node.leading_lines, *new])
        return commented

    # ---- imports ----------------------------------------------------------------------------------------------------

    def visit_ExceptHandler(self, node: cst.ExceptHandler) -> None:
        self._handlers += _catches_import_errors(node)

    def leave_ExceptHandler(
        self, original_node: cst.ExceptHandler, updated_node: cst.ExceptHandler
    ) -> cst.ExceptHandler:
        self._handlers -= _catches_import_errors(original_node)
        return updated_node

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        self._depth += 1

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        self._depth -= 1
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine] | cst.RemovalSentinel:
        statements: list[cst.BaseSmallStatement] = []
        comments: dict[int, list[str]] = {}
        is_import = False
        for before, after in zip(original_node.body, updated_node.body, strict=True):
            found = self._lines.replaced(before) if isinstance(before, cst.Import | cst.ImportFrom) else None
            if found is None:
                statements.append(after)
                continue
            is_import = True
            self.changes["import"] += found.moved
            for reason, link in found.reasons:
                self.mark(before, reason, link)
            if found.moved and self._handlers:
                self.mark(
                    before,
                    "this branch is for another version of the SDK, and both import the same now",
                    "two-versions",
                )
            comments |= {len(statements) + index: texts for index, texts in found.comments.items()}
            statements += found.statements
        if not is_import:
            return updated_node
        if len(updated_node.body) > 1:
            return updated_node.with_changes(
                body=[item.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for item in statements]
            )
        return self._on_lines(updated_node, statements, comments)

    def _on_lines(
        self,
        node: cst.SimpleStatementLine,
        statements: Sequence[cst.BaseSmallStatement],
        comments: Mapping[int, Sequence[str]],
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine] | cst.RemovalSentinel:
        lines: list[cst.SimpleStatementLine] = []
        for index, statement in enumerate(statements):
            text = cst.Module([]).code_for_node(statement)
            has_comments = any(line.comment for line in node.leading_lines) or node.trailing_whitespace.comment
            if not self._depth and text in self._emitted and not has_comments:
                continue
            if not self._depth:
                self._emitted.add(text)
            if not lines:
                lines.append(node.with_changes(body=[statement]))
            else:
                above = [cst.EmptyLine(comment=cst.Comment(comment)) for comment in comments.get(index, ())]
                lines.append(cst.SimpleStatementLine([statement], leading_lines=above))
        if not lines:
            return cst.RemoveFromParent()
        return cst.FlattenSentinel(lines) if len(lines) > 1 else lines[0]

    def _chosen(self, place: Place, local: str) -> tuple[Place, str]:
        """Return the place of a name for the goal, and its local name: that of a native app where it is free."""
        native = self._tables.native(place, self._goal)
        if native is None or (place.path in self._tables.made and local in self.names.called):
            return place, local
        if local == native.name or local != place.name.removeprefix("Standalone"):  # An alias of the author stays.
            return native, local
        if native.name in self.names.used:
            return native, local
        self._renamed[local] = native.name
        return native, native.name

    def _why(self, module: str, name: str) -> tuple[str, str]:
        rule = self._tables.find("absent", self._form, self._goal, "", name)
        if rule is not None:
            return f"{module}.{name}: {rule.reason}", rule.link
        return f"{module}.{name} has no counterpart", "no-counterpart"

    # ---- names ------------------------------------------------------------------------------------------------------

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self._inner.add(node.value)
        if self._chain(node) is not None:
            self._chained.add(node.value)

    def _chain(self, node: cst.Attribute) -> Rule | None:
        """Return the rule for an attribute of an attribute, such as `settings.lifespan` of a server."""
        if not isinstance(inner := node.value, cst.Attribute):
            return None
        name = f"{inner.attr.value}.{node.attr.value}"
        return self._tables.find("attribute", self._form, self._goal, self.names.kind(inner.value), name)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        if original_node in self._chained:
            return updated_node
        if (chain := self._chain(original_node)) is not None:
            return self._chain_ruled(updated_node, chain)
        rule = self._tables.find(
            "attribute", self._form, self._goal, self.names.kind(original_node.value), original_node.attr.value
        )
        if rule is not None:
            return self._ruled(original_node, updated_node, rule)
        path = self.names.path(original_node)
        module, rest = self._tables.split(path) if path else ("", "")
        if not module or rest.count("."):
            return updated_node
        if not rest:
            if original_node not in self._inner and self.names.path(original_node.value):
                self.mark(
                    original_node, f"{path} is used as a value; its names are in {COMPAT} now", "modules-as-values"
                )
            return updated_node
        return self._member(original_node, updated_node, module, rest)

    def _member(self, node: cst.Attribute, updated: cst.Attribute, module: str, name: str) -> cst.BaseExpression:
        """Return the expression for a name of a module that is itself imported, such as `types.Tool`."""
        place = self._tables.place(self._form, module, name)
        root = _root(node)
        if place is None:
            self.mark(node, *self._why(module, name))
            return updated
        place = self._tables.native(place, self._goal) or place
        self.changes["name"] += place.name != name
        bound = self.names.path(root)
        if self._tables.has_all_types(bound):
            if place.module == TYPES:
                return updated.with_changes(attr=cst.Name(place.name))
        elif place.module in (COMPAT, TYPES):
            value: cst.BaseExpression = cst.Name(root.value)
            if place.module == TYPES:
                value = cst.Attribute(value, cst.Name("types"))
            return updated.with_changes(value=value, attr=cst.Name(place.name))
        return cst.Name(self._imported(place, module.partition(".")[0]))

    def _imported(self, place: Place, package: str) -> str:
        """Return the local name of a name that gets an import line; with a package before it where it is in use."""
        local = place.name if place.name not in self.names.used else f"{package}_{place.name}"
        self.extra[place] = local
        return local

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        if original_node.returns is None:
            return updated_node
        names = dict.fromkeys(_alternatives(original_node.returns.annotation))
        for decorator in original_node.decorators:
            called = decorator.decorator
            function = called.func if isinstance(called, cst.Call) else called
            if isinstance(function, cst.Attribute):
                on = f"{self.names.kind(function.value)}.{function.attr.value}"
                for name in names:
                    if rule := self._tables.find("returns", self._form, self._goal, on, name):
                        self.mark(original_node, rule.reason, rule.link)
        return updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if (new := self._renamed.get(original_node.value)) and self.names.path(original_node):
            return updated_node.with_changes(value=new)
        return updated_node

    def _ruled(self, node: cst.Attribute, updated: cst.Attribute, rule: Rule) -> cst.BaseExpression:
        if rule.reason:
            self.mark(node, rule.reason, rule.link)
        if not rule.write:
            return updated
        self.changes["attribute"] += 1
        return updated.with_changes(attr=cst.Name(rule.write))

    def _chain_ruled(self, updated: cst.Attribute, rule: Rule) -> cst.BaseExpression:
        self.changes["attribute"] += 1
        if rule.wrap:
            local = self._imported(Place(*rule.wrap.split(":")), "mcp")
            return updated.with_changes(value=cst.Call(cst.Name(local), [cst.Arg(updated.value)]))
        first, _, last = rule.write.partition(".")
        inner = cst.ensure_type(updated.value, cst.Attribute).with_changes(attr=cst.Name(first))
        return updated.with_changes(value=inner, attr=cst.Name(last))

    # ---- calls ------------------------------------------------------------------------------------------------------

    def visit_Call(self, node: cst.Call) -> None:
        if _last_name(node.func) in self._tables.strings | self._tables.lookups:
            self._handled |= {argument.value for argument in node.args}
        if _last_name(node.func) == "add_tool" and len(node.args) == 1 and self._makes_tool(made := node.args[0].value):
            given = cst.ensure_type(made, cst.Call).args
            if not any(argument.keyword is not None and argument.keyword.value == "fn" for argument in given):
                self._tools.add(made)

    def _makes_tool(self, node: cst.BaseExpression) -> bool:
        """Return True for `Tool.from_function(…)` in a native app, which takes the function itself."""
        return self._goal == "app" and isinstance(node, cst.Call) and self.names.path(node.func) in self._tables.tools

    def visit_Await(self, node: cst.Await) -> None:
        self._awaited.add(node.expression)

    def leave_Await(self, original_node: cst.Await, updated_node: cst.Await) -> cst.BaseExpression:
        function = original_node.expression.func if isinstance(original_node.expression, cst.Call) else None
        if not isinstance(function, cst.Attribute):
            return updated_node
        owner = self.names.kind(function.value)
        rule = self._tables.find("method", self._form, self._goal, owner, function.attr.value)
        if rule is None or not rule.wrap:
            return updated_node
        self.changes["call"] += 1
        local = self._imported(Place(*rule.wrap.split(":")), "mcp")
        inner = updated_node.with_changes(lpar=(), rpar=())
        return cst.Call(cst.Name(local), [cst.Arg(inner)], lpar=updated_node.lpar, rpar=updated_node.rpar)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        function = original_node.func
        name = _last_name(function)
        kind = self._constructed(function)
        on = f"{kind}()" if kind else ""
        if isinstance(function, cst.Attribute) and (owner := self.names.kind(function.value)):
            on = f"{owner}.{name}"
            rule = self._tables.find("method", self._form, self._goal, owner, name)
            keywords = {argument.keyword.value for argument in original_node.args if argument.keyword is not None}
            is_wrapped = rule is not None and rule.wrap and original_node in self._awaited
            if rule is not None and rule.unless not in keywords and not is_wrapped:
                self.mark(original_node, rule.reason, rule.link)
        call = self._with_keywords(original_node, updated_node, on) if on else updated_node
        if original_node.args and original_node.args[0].value in self._tools:
            self.changes["call"] += 1
            made = cst.ensure_type(call.args[0].value, cst.Call)
            return call.with_changes(args=made.args, whitespace_before_args=made.whitespace_before_args)
        if original_node not in self._tools and self._makes_tool(original_node):
            self.mark(original_node, "an App takes the function itself: write add_tool(function, …)", "native-apps")
        if name == "getattr" and len(original_node.args) > 1:
            asked = self._tables.find("getattr", self._form, self._goal, "", _text(original_node.args[1].value) or "")
            if asked is not None:
                self.mark(original_node, f"{_text(original_node.args[1].value)}: {asked.reason}", asked.link)
        if name in self._tables.strings:
            return self._with_paths(original_node, call)
        return self._looked_up(original_node, call, name) if name in self._tables.lookups else call

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._bases.append(self.names.classes.get(node.name.value, ""))

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        self._bases.pop()
        return updated_node

    def _constructed(self, function: cst.BaseExpression) -> str:
        """Return the kind of what a call creates, also by `super().__init__(…)` of a class of the program."""
        if isinstance(function, cst.Attribute) and function.attr.value == "__init__" and self._bases:
            owner = function.value.func if isinstance(function.value, cst.Call) else None
            return self._bases[-1] if isinstance(owner, cst.Name) and owner.value == "super" else ""
        return self._tables.kinds.get(self.names.path(function), "")

    def _looked_up(self, node: cst.Call, updated: cst.Call, name: str) -> cst.Call:
        """Return a call such as `version("mcp")` with the name of this distribution, and mark it."""
        text = _text(node.args[0].value) if node.args else None
        if text is None or not _PATH.fullmatch(text):
            return updated
        if "." not in text and (replaced := self._tables.replaced.get(name)):
            self.mark(node, f"it asked for the release of {text}: this is the release whose names are here", "strings")
            self.changes["call"] += 1
            return updated.with_changes(func=cst.Name(self._imported(Place(*replaced.split(":")), "mcp")))
        renamed = self._tables.renamed.get(name)
        first = updated.args[0].value
        if renamed is None or "." in text or not isinstance(first, cst.SimpleString):
            self.mark(node, f"{name}({text!r}) looks for a package that the program no longer needs", "strings")
            return updated
        self.mark(node, f"{name}({text!r}) asked about the SDK, whose versions are others than ours", "strings")
        self.changes["string"] += 1
        string = cst.SimpleString(f"{first.prefix}{first.quote}{renamed}{first.quote}")
        return updated.with_changes(args=[updated.args[0].with_changes(value=string), *updated.args[1:]])

    def _with_keywords(self, node: cst.Call, updated: cst.Call, on: str) -> cst.Call:
        kept: list[cst.Arg] = []
        for before, after in zip(node.args, updated.args, strict=True):
            keyword = "" if before.keyword is None else before.keyword.value
            rule = self._tables.find("keyword", self._form, self._goal, on, keyword) if keyword else None
            if rule is None:
                kept.append(after)
                continue
            if rule.reason:
                self.mark(before, f"{keyword}=: {rule.reason}", rule.link)
            if rule.drop:
                self.changes["keyword"] += 1
            elif rule.write:
                self.changes["keyword"] += 1
                kept.append(after.with_changes(keyword=cst.Name(rule.write)))
            else:
                kept.append(after)
        if len(kept) < len(updated.args) and kept:
            kept[-1] = kept[-1].with_changes(comma=updated.args[-1].comma)
        for table in self._added:
            added = self._tables.find(table, self._form, self._goal, on, "")
            if added is None:
                continue
            have = {argument.keyword.value for argument in kept if argument.keyword is not None}
            new = cst.ensure_type(cst.parse_expression(f"f({added.write})"), cst.Call).args
            missing = [item for item in new if item.keyword is not None and item.keyword.value not in have]
            if added.reason and not new:
                self.mark(node, added.reason, added.link)
            if missing:
                self.changes["keyword"] += len(missing)
                if added.reason:
                    self.mark(node, added.reason, added.link)
                kept = _joined(kept, missing)
        return updated if kept == list(updated.args) else updated.with_changes(args=kept)

    # ---- strings ----------------------------------------------------------------------------------------------------

    def _with_paths(self, node: cst.Call, updated: cst.Call) -> cst.Call:
        """Return a call such as `patch("mcp.types.Tool")` with the path of the name here."""
        arguments: list[cst.Arg] = []
        for before, after in zip(node.args, updated.args, strict=False):
            whole = _text(before.value)
            # A filter of warnings has a category after its last colon: "ignore::mcp.shared.exceptions.Name".
            start, colon, text = (whole or "").rpartition(":") if whole and ":" in whole else ("", "", whole)
            if text is None and _begins_with_package(before.value):
                self.mark(before, "a name of a module that is put together here is not changed", "strings")
            if text is None or not _PATH.fullmatch(text) or not isinstance(after.value, cst.SimpleString):
                arguments.append(after)
                continue
            path = self.path_of(text)
            if path is None:
                self.mark(before, f"{text!r} has no counterpart", "strings")
                arguments.append(after)
                continue
            replaced = self._tables.find("patched", self._form, self._goal, "", path.rpartition(".")[2])
            if replaced is not None:
                self.mark(before, f"{text!r}: {replaced.reason}", replaced.link)
            self.changes["string"] += 1
            quote = after.value.prefix + after.value.quote
            arguments.append(
                after.with_changes(value=cst.SimpleString(f"{quote}{start}{colon}{path}{after.value.quote}"))
            )
        return updated if arguments == list(updated.args) else updated.with_changes(args=arguments)

    def path_of(self, text: str) -> str | None:
        """Return the path here of a module or of a name of one; None without a counterpart."""
        module, rest = self._tables.split(text)
        if not module:
            return None
        if not rest:
            return TYPES if self._tables.has_all_types(module) else COMPAT
        name, _, attributes = rest.partition(".")
        place = self._tables.place(self._form, module, name)
        if place is None:
            return None
        place = self._tables.native(place, self._goal) or place
        return f"{place.path}.{attributes}" if attributes else place.path

    def visit_Expr(self, node: cst.Expr) -> bool:
        return not isinstance(
            node.value, cst.SimpleString | cst.ConcatenatedString
        )  # A docstring is a text for people.

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        text = _text(original_node) or ""
        if _CODE.search(text):
            self.mark(original_node, "this string has code that imports the SDK; it is not changed", "strings")
        elif _PATH.fullmatch(text) and self._tables.split(text)[0].count(".") + 1 >= _PARTS:
            if original_node not in self._handled:
                self.mark(original_node, f"{text!r} names a module of the SDK; it is not changed", "strings")
        return updated_node


def migrated(data: bytes, edit: Callable[[MetadataWrapper], SourceEdit]) -> tuple[bytes, SourceEdit]:
    """Return the bytes of a module after its changes, in its own encoding and with its own ends of lines.

    Raises ParserSyntaxError and UnicodeDecodeError for what cannot be read, and UnicodeEncodeError.
    """
    wrapper = MetadataWrapper(cst.parse_module(data), unsafe_skip_copy=True)  # It was parsed here: no node is shared.
    changes = edit(wrapper)
    module = wrapper.module.visit(changes)
    extra = [import_of(place, local) for place, local in changes.extra.items()]
    if extra:
        place = 1 + max((index for index, statement in enumerate(module.body) if _is_import(statement)), default=-1)
        module = module.with_changes(body=[*module.body[:place], *extra, *module.body[place:]])
    return module.bytes, changes


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Import | cst.ImportFrom)


def _catches_import_errors(node: cst.ExceptHandler) -> bool:
    return node.type is not None and any(
        word in cst.Module([]).code_for_node(node.type) for word in ("ImportError", "ModuleNotFoundError")
    )


def _root(node: cst.BaseExpression) -> cst.Name:
    while isinstance(node, cst.Attribute):
        node = node.value
    return cst.ensure_type(node, cst.Name)


def _last_name(node: cst.BaseExpression) -> str:
    return node.attr.value if isinstance(node, cst.Attribute) else dotted(node)


def _alternatives(annotation: cst.BaseExpression) -> Iterator[str]:
    """Yield the names of the types of an annotation without their parameters: of `Union[List[int], None]`, `List`."""
    if isinstance(annotation, cst.BinaryOperation):
        yield from _alternatives(annotation.left)
        yield from _alternatives(annotation.right)
    elif isinstance(annotation, cst.Subscript) and _last_name(annotation.value) in ("Union", "Optional"):
        for element in annotation.slice:
            if isinstance(element.slice, cst.Index):
                yield from _alternatives(element.slice.value)
    else:
        yield _last_name(annotation.value if isinstance(annotation, cst.Subscript) else annotation)


def _text(node: cst.BaseExpression) -> str | None:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None


def _begins_with_package(node: cst.BaseExpression) -> bool:
    """Return True for a text that is put together, and begins with the name of a package."""
    while isinstance(node, cst.BinaryOperation | cst.ConcatenatedString):
        node = node.left
    first = node.parts[0] if isinstance(node, cst.FormattedString) and node.parts else node
    text = first.value if isinstance(first, cst.FormattedStringText) else _text(node)
    return text is not None and text.partition(".")[0] in PACKAGES and "." in text


def _joined(arguments: list[cst.Arg], new: Sequence[cst.Arg]) -> list[cst.Arg]:
    """Return arguments with further ones, laid out as those before."""
    if not arguments:
        return list(new)
    last = arguments[-1]
    between = next((item.comma for item in arguments if isinstance(item.comma, cst.Comma)), None)
    comma = (
        between
        if between is not None and len(arguments) > 1
        else cst.Comma(cst.SimpleWhitespace(""), cst.SimpleWhitespace(" "))
    )
    return [
        *arguments[:-1],
        last.with_changes(comma=comma),
        *(item.with_changes(comma=comma) for item in new[:-1]),
        new[-1].with_changes(comma=last.comma),
    ]
