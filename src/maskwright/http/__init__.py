"""Layer 6: access control, limits and sockets shared by the HTTP servers of this package.

    guard.py        checks of the Host, Origin and Sec-Fetch headers; security headers of every response
    connections.py  the listening socket, and limits: connections per client, header size, timeouts, pipelining
    bodies.py       request bodies and errors in JSON

Each server implements its own authentication: the studio uses a session cookie.
"""
