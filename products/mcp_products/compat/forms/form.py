"""Which form of the official SDK a process speaks: that of 2.x, or that of the last 1.x.

One process has one form, because a program imports one `mcp`. It is that of 2.x unless a module chooses otherwise
before it imports anything else of `compat`: the packages of `products/names` do.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, Literal, cast, get_args

from pydantic import BaseModel, TypeAdapter
from pydantic.alias_generators import to_camel

from mcp_products.app.signatures.generated_types import register_form
from mcp_runtime.errors import LocalError, NotInstalledError
from mcp_runtime.protocol.models import is_list
from mcp_runtime.protocol.revision import Revision, Stateless

if find_spec("anyio") is None:  # All of `mcp_generated.compat` needs it, and imports this module first.
    raise NotInstalledError("mcp_generated.compat needs anyio: pip install 'mcp-generated[compat]'")

FormName = Literal["v1", "v2"]
Seconds = float | timedelta | None


class Form:
    """The form of a process: its types, and how messages are read as them."""

    def __init__(self) -> None:
        """Create the form of 2.x, of the package that is installed with this one until another one is imported."""
        self._package = "mcp_generated"
        self._name: FormName = "v2"

    def bind(self, package: str) -> None:
        """Use the types of a generated package."""
        self._package = package

    def choose(self, name: FormName) -> None:
        """Choose the form of this process. Raises LocalError if the types of the other form are in use already."""
        if name != self._name and "types" in vars(self):
            raise LocalError(
                f"compat: the types of {self._name} are in use; choose the form {name!r} before any import"
            )
        self._name = name

    @property
    def is_v1(self) -> bool:
        """True for the form of the last 1.x."""
        return self._name == "v1"

    @cached_property
    def types(self) -> ModuleType:
        """The module of the types."""
        types = import_module(f"{self._package}.compat.types_{self._name}")
        register_form(types.__name__, types.MCPModel, types.LATEST_PROTOCOL_VERSION)
        return types

    @property
    def other_types(self) -> ModuleType:
        """The module of the types of the other form."""
        return import_module(f"{self._package}.compat.types_{'v2' if self.is_v1 else 'v1'}")

    @cached_property
    def app_class(self) -> Any:
        """The class of apps of the package."""
        return import_module(f"{self._package}.app").App

    @cached_property
    def revisions(self) -> Mapping[str, Revision]:
        """The protocol versions by their ids, oldest first."""
        modules: Mapping[str, str] = import_module(self._package).REVISIONS
        return {id: import_module(f"{self._package}.{name}.methods").REVISION for id, name in modules.items()}

    @cached_property
    def handshakes(self) -> tuple[str, ...]:
        """The ids of the protocol versions with a handshake, oldest first."""
        return tuple(id for id, item in self.revisions.items() if not isinstance(item.lifecycle, Stateless))

    @cached_property
    def stateless(self) -> tuple[str, ...]:
        """The ids of the protocol versions without one; none in the form of 1.x."""
        return () if self.is_v1 else tuple(id for id in self.revisions if id not in self.handshakes)

    @property
    def compat(self) -> ModuleType:
        """The `compat` of the package; in its variables is what a test has put in the place of one of its names."""
        return import_module(f"{self._package}.compat")

    # ---- messages ---------------------------------------------------------------------------------------------------

    def message(self, raw: Mapping[str, Any]) -> Any:
        """Return a JSON-RPC message as a type of this form. Raises ValidationError."""
        if self.is_v1:
            return self.types.JSONRPCMessage.model_validate(raw)
        return self.types.jsonrpc_message_adapter.validate_python(raw)

    @cached_property
    def by_method(self) -> dict[str, dict[str, Any]]:
        """The types of messages by their union and method."""
        found: dict[str, dict[str, Any]] = {}
        for union in ("ServerRequest", "ServerNotification", "ClientRequest", "ClientNotification"):
            arms = get_args(getattr(self.types, f"{union}Type" if self.is_v1 else union))
            found[union] = {arm.model_fields["method"].default: arm for arm in arms}
        return found

    @cached_property
    def handler_names(self) -> dict[str, str]:
        """The names of the handlers of a server by the methods of their messages."""
        rows = [row for item in self.revisions.values() for row in item.rows if row.direction == "client_to_server"]
        return {row.method: row.name for row in rows}

    def read(self, union: str, method: str, params: Any) -> Any:
        """Return a message of a union, such as `ServerRequest`; None for a method that it does not have.

        Raises ValidationError.
        """
        arm = self.by_method[union].get(method)
        if arm is None:
            return None
        fields = {"method": method} if params is None else {"method": method, "params": params}
        return arm.model_validate(fields)

    def method(self, name: str) -> str:
        """Return the method of a message by the name of its type; an empty text for one that the form does not have."""
        kind = getattr(self.types, name, None)
        return "" if kind is None else str(kind.model_fields["method"].default)

    def wrapped(self, union: str, message: Any) -> Any:
        """Return a message as programs get it: in the RootModel of its union in the form of 1.x."""
        return getattr(self.types, union)(message) if self.is_v1 else message


FORM: Final = Form()


def params_type(kind: type[BaseModel]) -> Any:
    """Return the type of the params of a message."""
    hint = kind.model_fields["params"].annotation
    return (get_args(hint) or (hint,))[0]


def written(message: Any) -> dict[str, Any]:
    """Return a message or a value as JSON, without what is None."""
    if isinstance(message, BaseModel):
        fields: dict[str, Any] = message.model_dump(by_alias=True, mode="json", exclude_none=True)
        return fields
    return dict(message)


def field_of(value: Any, name: str) -> Any:
    """Return a field by its name in 2.x, such as `is_error`, which 1.x has as in JSON."""
    return getattr(value, to_camel(name) if FORM.is_v1 else name)


def read_as(result_type: Any, raw: Any) -> Any:
    """Return a value as a type, or as the type of an adapter. Raises ValidationError."""
    adapter: Any = result_type if hasattr(result_type, "validate_python") else TypeAdapter(result_type)
    return adapter.validate_python(raw)


def seconds(timeout: Seconds) -> float | None:
    """Return a time in seconds."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout


def official(value: Any) -> Any:
    """Return a value of a protocol version as the type of the form with the same name; another value as it is."""
    if is_list(value):
        return [official(item) for item in value]
    kind = getattr(FORM.types, type(value).__name__, None)
    if not isinstance(value, BaseModel) or not isinstance(kind, type) or isinstance(value, kind):
        return value
    return cast("type[BaseModel]", kind).model_validate(written(value))
