"""JSON endpoints of the pages: each validates a request, calls the library, and returns its result."""
