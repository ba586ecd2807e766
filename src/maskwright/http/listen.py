"""The listening socket of a local server."""

from __future__ import annotations

import socket

from ..core.errors import RunError

LOOPBACK = "127.0.0.1"
BACKLOG = 2048  # connections that wait to be accepted; beyond it a client tries again after a second or more


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """Returns a TCP socket that listens on `host`. port: 0 selects any free port.

    Raises RunError if the port cannot be used.
    """
    # With the protocol, or asyncio leaves Nagle's algorithm on and the body of a response waits 40 ms for the client.
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise RunError(f"Port {port} cannot be used ({error.strerror}): use another with --port, or 0.") from None
    return found
