"""Libraries of Windows that wine or the jar lacks: DLLs whose functions are those of other DLLs, and the names in one.

https://learn.microsoft.com/windows/win32/debug/pe-format
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

_SECTION: Final = 0x1000  # Where the only section is loaded, and the alignment of what is loaded.
_IN_FILE: Final = 0x200  # Where it stands in the file, and the alignment there.


def forwarding_library(name: str, functions: Mapping[str, str]) -> bytes:
    """Return the bytes of a DLL for x86-64, each of whose functions is that of another DLL: "advapi32.EventWrite"."""
    exports = _exports(name, functions)
    size = _rounded(len(exports), _IN_FILE)
    headers = struct.pack("<2s58xI", b"MZ", 64) + _file_header() + _optional_header(len(exports))
    return (headers + _section(len(exports), size)).ljust(_IN_FILE, b"\0") + exports.ljust(size, b"\0")


def _exports(name: str, functions: Mapping[str, str]) -> bytes:
    """Return the export directory. An address that points into it is the name of a function elsewhere: a forwarder."""
    words = sorted(functions)  # They are looked up by bisection.
    addresses = _SECTION + 40
    names = addresses + 4 * len(words)
    ordinals = names + 4 * len(words)
    at = texts = ordinals + 2 * len(words)
    text, places = bytearray(), list[int]()
    for word in (name, *words, *(functions[word] for word in words)):
        places.append(at + len(text))
        text += word.encode() + b"\0"
    count = len(words)
    directory = struct.pack("<IIHHIIIIIII", 0, 0, 0, 0, texts, 1, count, count, addresses, names, ordinals)
    tables = struct.pack(f"<{2 * count}I", *places[1 + count :], *places[1 : 1 + count])
    return directory + tables + struct.pack(f"<{count}H", *range(count)) + bytes(text)


def _file_header() -> bytes:
    """Return the signature and the COFF header: x86-64, one section, an executable image that is a DLL."""
    return b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x2022)


def _optional_header(size: int) -> bytes:
    """Return the optional header of PE32+, of which only the export directory is not empty."""
    standard = struct.pack("<HBBIIIII", 0x20B, 14, 0, 0, _rounded(size, _IN_FILE), 0, 0, 0)
    versions = struct.pack("<HHHHHHI", 6, 0, 0, 0, 6, 0, 0)
    sizes = struct.pack("<III", _SECTION + _rounded(size, _SECTION), _IN_FILE, 0)
    windows = struct.pack("<QII", 0x180000000, _SECTION, _IN_FILE) + versions + sizes
    # A program of the console; may be loaded anywhere, and executes no data.
    rest = struct.pack("<HHQQQQII", 3, 0x0160, 0x100000, 0x1000, 0x100000, 0x1000, 0, 16)
    return standard + windows + rest + struct.pack("<II", _SECTION, size).ljust(16 * 8, b"\0")


def _section(size: int, in_file: int) -> bytes:
    """Return the header of the section: initialised data that is read."""
    return struct.pack("<8sIIIIIIHHI", b".rdata", size, _SECTION, in_file, _IN_FILE, 0, 0, 0, 0, 0x40000040)


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def exported_names(library: bytes) -> list[str]:
    """Return the names of the functions and variables of a DLL for x86-64."""
    (header,) = struct.unpack_from("<I", library, 60)
    (sections,) = struct.unpack_from("<H", library, header + 6)
    (size,) = struct.unpack_from("<H", library, header + 20)
    (exports,) = struct.unpack_from("<I", library, header + 24 + 112)

    def place(address: int) -> int:
        for number in range(sections):
            _, start, length, offset = struct.unpack_from("<4I", library, header + 24 + size + 40 * number + 8)
            if start <= address < start + length:
                return int(address - start + offset)
        raise ValueError(f"no section of the library has the address {address:#x}")

    count, _, names = struct.unpack_from("<III", library, place(exports) + 24)
    found = []
    for address in struct.unpack_from(f"<{count}I", library, place(names)):
        start = place(address)
        found.append(library[start : library.index(b"\0", start)].decode())
    return found
