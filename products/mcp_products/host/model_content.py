"""Results of tools in the form of the APIs of models: OpenAI, Anthropic and Gemini.

What an API does not accept becomes a text that names it, so that the model knows of it, and whoever reads the messages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_list, is_object

Block = dict[str, Any]
Endpoint = Literal["chat", "responses"]

_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")  # What OpenAI and Anthropic accept.
_PDF: Final = "application/pdf"
_OF_GEMINI: Final = ("image/", "audio/", "video/", "text/", _PDF)  # The media types of its parts.
_SOUNDS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def plain_blocks(content: Any) -> list[Block]:
    """Return blocks of content, or one block, as JSON; the blocks of embedded resources are as those beside them."""
    blocks = content if is_list(content) else [content]
    dumped = [block if is_object(block) else block.model_dump(mode="json", by_alias=True) for block in blocks]
    return [_without_resource(block) for block in dumped]


def _without_resource(block: Block) -> Block:
    """Return the text or the data of an embedded resource as a block, and a link as its text; media types in the form
    that the APIs know."""
    resource = block.get("resource")
    if block.get("type") == "resource_link":
        title = block.get("title") or block.get("name") or ""
        about = f": {block['description']}" if block.get("description") else ""
        return {"type": "text", "text": f"[{title}]({block.get('uri')}){about}"}
    if block.get("type") != "resource" or not is_object(resource):
        return {**block, "mimeType": _plain_type(block["mimeType"])} if block.get("mimeType") else block
    if isinstance(text := resource.get("text"), str):
        return {"type": "text", "text": f"{resource.get('uri')}:\n{text}"}
    mime_type = _plain_type(str(resource.get("mimeType") or "application/octet-stream"))
    kind = mime_type.partition("/")[0]
    return {
        "type": kind if kind in ("image", "audio") else "file",
        "data": resource.get("blob") or "",
        "mimeType": mime_type,
        "uri": resource.get("uri"),
    }


def _plain_type(mime_type: str) -> str:
    plain = mime_type.partition(";")[0].strip().lower()
    return "image/jpeg" if plain == "image/jpg" else plain


def blocks_of_result(content: Any, structured: Any, is_structured: bool) -> list[Block]:
    """Return the blocks of a tool's result, with its structured content unless a text is the same."""
    blocks = plain_blocks(content)
    if not is_structured or any(_says(block, structured) for block in blocks):
        return blocks
    return [*blocks, {"type": "text", "text": json.dumps(structured, ensure_ascii=False)}]


def _says(block: Block, structured: Any) -> bool:
    if block.get("type") != "text":
        return False
    value = structured["result"] if is_object(structured) and structured.keys() == {"result"} else structured
    if block["text"] == value:
        return True
    try:
        return json.loads(block["text"]) in (structured, value)
    except (ValueError, RecursionError):
        return False


def _note(block: Block, api: str) -> str:
    """Return the text in the place of a block that an API does not accept."""
    kind = f"{block.get('mimeType') or ''} {block.get('type')}".strip()
    size = f" of {len(str(block['data'])) * 3 // 4} bytes" if "data" in block else ""
    place = f" {block['uri']}" if block.get("uri") else ""
    return f"[{kind}{size}{place}: {api} does not accept it here]"


def _is_image(block: Block) -> bool:
    return block.get("type") == "image" and block.get("mimeType") in _IMAGES


def openai_result(blocks: Sequence[Block], is_error: bool, call_id: str, endpoint: Endpoint) -> list[dict[str, Any]]:
    """Return the messages, or the items, with the result of a function that OpenAI's model has called.

    A message of the role `tool` has texts only: a message of the user with the images and sounds follows it.

    Args:
        blocks: The blocks of the result.
        is_error: Whether the tool has failed: its text says so then.
        call_id: The id of the call.
        endpoint: "chat" for `chat.completions.create`, or "responses" for `responses.create`.

    Raises LocalError for another endpoint.
    """
    if endpoint not in ("chat", "responses"):
        raise LocalError(f'to_openai(): the endpoint is "chat" or "responses", not {endpoint!r}')
    failed = ["The tool failed:"] if is_error else []
    if endpoint == "responses":
        output = [{"type": "input_text", "text": text} for text in failed] + [_responses_part(item) for item in blocks]
        return [{"type": "function_call_output", "call_id": call_id, "output": output}]
    texts, parts = failed, list[dict[str, Any]]()
    for block in blocks:
        part = _chat_part(block)
        if part["type"] == "text":
            texts.append(part["text"])
        else:
            parts.append(part)
            texts.append(f"[{block['mimeType']} {block['type']} {len(parts)} follows]")
    message = {"role": "tool", "tool_call_id": call_id, "content": "\n".join(texts)}
    return [message, {"role": "user", "content": parts}] if parts else [message]


def _data_url(block: Block) -> str:
    return f"data:{block['mimeType']};base64,{block['data']}"


def _chat_part(block: Block) -> dict[str, Any]:
    if block.get("type") == "text":
        return {"type": "text", "text": block["text"]}
    if _is_image(block):
        return {"type": "image_url", "image_url": {"url": _data_url(block)}}
    if block.get("type") == "audio" and (form := _SOUNDS.get(str(block.get("mimeType")))) is not None:
        return {"type": "input_audio", "input_audio": {"data": block["data"], "format": form}}
    if block.get("mimeType") == _PDF:
        return {"type": "file", "file": {"filename": _file_name(block), "file_data": _data_url(block)}}
    return {"type": "text", "text": _note(block, "OpenAI")}


def _responses_part(block: Block) -> dict[str, Any]:
    if block.get("type") == "text":
        return {"type": "input_text", "text": block["text"]}
    if _is_image(block):
        return {"type": "input_image", "image_url": _data_url(block)}
    if block.get("mimeType") == _PDF:
        return {"type": "input_file", "filename": _file_name(block), "file_data": _data_url(block)}
    return {"type": "input_text", "text": _note(block, "OpenAI")}


def _file_name(block: Block) -> str:
    return str(block.get("uri") or "file.pdf").rpartition("/")[2] or "file.pdf"


def anthropic_result(blocks: Sequence[Block], is_error: bool, call_id: str) -> dict[str, Any]:
    """Return the block `tool_result` of a message of the user, for Anthropic's Messages API."""
    failed = {"is_error": True} if is_error else {}
    parts = (_anthropic_block(block) for block in blocks)
    content = [part for part in parts if part["type"] != "text" or part["text"].strip()]  # It refuses blank texts.
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **failed}


def _anthropic_block(block: Block) -> dict[str, Any]:
    if block.get("type") == "text":
        return {"type": "text", "text": block["text"]}
    kind = "image" if _is_image(block) else "document" if block.get("mimeType") == _PDF else None
    if kind is None:
        return {"type": "text", "text": _note(block, "Anthropic")}
    return {
        "type": kind,
        "source": {"type": "base64", "media_type": block["mimeType"], "data": block["data"]},
    }


def gemini_result(blocks: Sequence[Block], value: Any, is_error: bool, name: str, call_id: str | None) -> list[Block]:
    """Return the parts of a content of the user with the response of a function that Gemini has called.

    Args:
        blocks: The blocks of the result; those with data are parts behind the response.
        value: The structured content; None for the text of the blocks.
        is_error: Whether the tool has failed.
        name: The name of the function.
        call_id: The id of the call, if the API has given one.
    """
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    parts: list[Block] = []
    for block in blocks:
        if "data" in block and str(block.get("mimeType")).startswith(_OF_GEMINI):
            parts.append({"inline_data": {"mime_type": block["mimeType"], "data": block["data"]}})
        elif block.get("type") != "text":
            texts.append(_note(block, "Gemini"))
    response = {"error" if is_error else "result": "\n".join(texts) if value is None or is_error else value}
    if value is not None and not is_error and (others := [text for text in texts if not _says_text(text, value)]):
        response["text"] = "\n".join(others)
    identity = {"name": name} if call_id is None else {"id": call_id, "name": name}
    return [{"function_response": {**identity, "response": response}}, *parts]


def _says_text(text: str, value: Any) -> bool:
    return _says({"type": "text", "text": text}, value)
