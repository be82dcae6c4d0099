"""Messages with file descriptors over a local SEQPACKET socket: JSON, one message per packet.

A message too long for a packet travels in a memory file whose descriptor comes first.
"""

from __future__ import annotations

import errno
import json
import os
import socket
from typing import Any, Final

PACKET_LIMIT: Final = 60_000
MAX_FDS: Final = 253
"""The kernel takes no more in one message."""
_PLAIN, _SPILLED = b"J", b"M"
_FD_SPACE: Final = socket.CMSG_SPACE(4 * MAX_FDS)
_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode

Message = dict[str, Any]


class Received:
    """One message and the descriptors that came with it; the receiver owns them."""

    __slots__ = ("fds", "message")

    def __init__(self, message: Message, fds: list[int]) -> None:
        """All of `fds` are close-on-exec."""
        self.message = message
        self.fds = fds


def memory_file(content: bytes) -> int:
    """An anonymous file that holds `content`, positioned at its beginning."""
    fd = os.memfd_create("termarena", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def read_to_end(fd: int) -> bytes:
    """Everything from the descriptor's position to its end."""
    chunks = []
    while chunk := os.read(fd, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


def send(sock: socket.socket, message: Message, fds: tuple[int, ...] = ()) -> None:
    """Send one message; `BlockingIOError` on a full non-blocking socket, `OSError` when the peer has gone."""
    body = _ENCODE(message).encode("ascii")
    if len(body) <= PACKET_LIMIT:
        _send_packet(sock, _PLAIN + body, fds)
        return
    spill = memory_file(body)
    try:
        _send_packet(sock, _SPILLED, (spill, *fds))
    finally:
        os.close(spill)


def _send_packet(sock: socket.socket, packet: bytes, fds: tuple[int, ...]) -> None:
    ancillary = []
    if fds:
        ancillary.append((socket.SOL_SOCKET, socket.SCM_RIGHTS, b"".join(fd.to_bytes(4, "little") for fd in fds)))
    sock.sendmsg([packet], ancillary, socket.MSG_NOSIGNAL)


def receive(sock: socket.socket) -> Received | None:
    """The next message, or None at the end; `BlockingIOError` when there is none yet.

    One whose descriptors could not all be taken (EMFILE) comes without any and has a `problem`: a sandbox with some of
    its layers would be another one.
    """
    # recv_fds() of Python 3.11 ignores its flags, and inheritable descriptors would reach other sandboxes.
    packet, ancillary, flags, _ = sock.recvmsg(PACKET_LIMIT + 64, _FD_SPACE, socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, raw in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.extend(int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw) - 3, 4))
    if not packet:
        return None
    if not flags & socket.MSG_CTRUNC:
        return Received(_read_message(packet, fds), fds)
    try:
        message = _read_message(packet, fds)
    finally:
        for fd in fds:
            os.close(fd)
    return Received({**message, "errno": errno.EMFILE, "problem": os.strerror(errno.EMFILE)}, [])


def _read_message(packet: bytes, fds: list[int]) -> Message:
    """The message of a packet; the file of one that was too long is taken from the descriptors. Raises `OSError`."""
    message: Message
    if packet[:1] != _SPILLED:
        message = json.loads(packet[1:])
        return message
    if not fds:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    spill = fds.pop(0)
    try:
        os.lseek(spill, 0, os.SEEK_SET)
        message = json.loads(read_to_end(spill))
    finally:
        os.close(spill)
    return message
