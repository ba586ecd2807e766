"""One module per checkpoint family, containing only its tables (see `hub.family`).

Each has a line in `core.registry`, kind `family`.
"""
