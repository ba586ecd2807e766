"""Layer 6: access control, limits and sockets shared by the HTTP servers of this package.

    guard.py        checks of the Host, Origin and Sec-Fetch headers; security headers of every response
    connections.py  connections with limits: their number per client, header size, timeouts, pipelining
    limits.py       limits of requests: header size and lines, 503 with Retry-After
    listen.py       the listening socket

Each server implements its own authentication: the studio uses a session cookie.
"""
