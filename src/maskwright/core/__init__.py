"""Floor 0: errors, configuration, the registry, storage, randomness and progress. Imports no torch."""
