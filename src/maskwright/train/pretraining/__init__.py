"""Pre-training: corpus to model folder."""
