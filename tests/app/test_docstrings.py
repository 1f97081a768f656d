"""Docstrings of the common styles: the description of a tool, and those of its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_generated import App

GOOGLE = """Find a place.

    It may take long: be patient.

    Args:
        city (str, optional): Where: in words.
            Also abroad.

            With an empty line.
        days: How many.
        nothing:
        **rest: The rest.

    Returns:
        The place.

    Raises:
        ValueError: If there is none.

    Example:
        find("Rome")
    """
NUMPY = """Find a place.

    It may take long: be patient.

    Parameters
    ----------
    city : str, optional
        Where: in words.
        Also abroad.

        With an empty line.
    days, more : int
        How many.

    Returns
    -------
    str
        The place.

    Example
    -------
    find("Rome")
    """
REST = """Find a place.

    It may take long: be patient.

    :param str city: Where: in words.
        Also abroad.
    :type city: str
    :param days: How many.
    :returns: The place.
    :raises ValueError: If there is none.
    """
EPYDOC = """Find a place.

    It may take long: be patient.

    @param city: Where: in words.
    @param days: How many.
    @return: The place.
    """
PROSE = """Find a place.

    Note: this is not a section.
    Args are described elsewhere:
    city and days.
    """


async def described(docstring: str) -> tuple[str, dict[str, Any]]:
    """The description of a tool with a docstring, and the descriptions of its arguments."""
    app = App("described")

    def find(city: str = "", days: int = 1) -> str:
        return city

    find.__doc__ = docstring
    app.add_tool(find)
    [tool] = await app.list_tools()
    properties = tool.model_dump(exclude_none=True)["inputSchema"]["properties"]
    return tool.description or "", {name: field.get("description") for name, field in properties.items()}


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST, EPYDOC])
async def test_arguments_are_described_and_what_schemas_say_is_not_repeated(docstring: str) -> None:
    text, arguments = await described(docstring)
    assert text.startswith("Find a place.\n\nIt may take long: be patient.")
    assert arguments["city"].startswith("Where: in words.") and arguments["days"] == "How many."
    assert not any(word in text for word in ("Args", "Param", "param", "The place", "ValueError", "How many"))
    assert ("Also abroad." in arguments["city"]) is (docstring is not EPYDOC)
    assert ('find("Rome")' in text) is (docstring in (GOOGLE, NUMPY))
    if docstring in (GOOGLE, NUMPY):
        assert arguments["city"] == "Where: in words.\nAlso abroad.\n\nWith an empty line."


async def test_prose_is_the_description_as_it_is() -> None:
    text, arguments = await described(PROSE)
    assert text == "Find a place.\n\nNote: this is not a section.\nArgs are described elsewhere:\ncity and days."
    assert arguments == {"city": None, "days": None}


async def test_one_line_is_the_description() -> None:
    assert (await described("Find: a place."))[0] == "Find: a place."
    assert (await described(""))[0] == ""
