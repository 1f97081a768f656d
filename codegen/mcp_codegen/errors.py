"""What the generator says when its input is wrong: one sentence, naming the input, the rule and the revision."""


class CodegenError(Exception):
    """A fault of the input or of the overlay, told in one line; the command line turns it into exit code 2."""


class SchemaError(CodegenError):
    """A schema says something the generator cannot read, or two sources disagree."""


class OverlayError(CodegenError):
    """A row of the overlay is unused, unknown or no longer true."""


class RuleError(CodegenError):
    """A result, direction or capability does not follow from the schema and the overlay."""


class OutputError(CodegenError):
    """The output folder cannot be written, or is not ours to overwrite."""
