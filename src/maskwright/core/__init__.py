"""Errors, configuration, the registry, storage, random seeds and progress bars. Imports no torch."""
