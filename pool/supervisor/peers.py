"""Who is at the other end of a connection: the kernel says, not the caller."""

import os
import socket
import struct

_UCRED = struct.Struct("=iII")


def peer_uid(connection: socket.socket) -> int | None:
    """The user at the other end of a Unix socket (as of its connect); None over TCP."""
    if connection.family != socket.AF_UNIX:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    uid: int = _UCRED.unpack(raw)[1]
    return uid


def may_command(uid: int | None) -> bool:
    """Whether this user may change something: the owner of the pool or root; nobody over TCP."""
    return uid is not None and uid in (0, os.geteuid())
