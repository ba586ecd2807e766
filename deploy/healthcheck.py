"""Exit 0 if the server on a port of this container (8080) is alive: slim images have no curl."""

import sys
from http.client import HTTPConnection, HTTPException

try:
    connection = HTTPConnection("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8080, timeout=2)
    connection.request("GET", "/health")
    sys.exit(connection.getresponse().status != 200)
except (OSError, HTTPException) as error:
    sys.exit(f"The server does not respond: {error}.")
