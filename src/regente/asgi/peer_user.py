"""The operating system's user at the other end of a connection within this machine."""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_address
from pathlib import Path

_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_ADDRESS, _STATE, _UID, _ESTABLISHED = 1, 3, 7, "01"


def user_id_of(host: str, port: int) -> int | None:
    """The user id of the process that holds this end; None where the system does not tell."""
    address = ip_address(host)
    wanted = f"{_in_table(address.packed)}:{port:04X}"
    try:
        lines = _TABLES[address.version].read_text("ascii").splitlines()[1:]
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if fields[_ADDRESS] == wanted and fields[_STATE] == _ESTABLISHED:
            return int(fields[_UID])
    return None


def _in_table(packed: bytes) -> str:
    """The address as Linux writes it: words of this machine's byte order."""
    words = struct.unpack(f"!{len(packed) // 4}I", packed)
    return "".join(f"{socket.htonl(word):08X}" for word in words)
