"""Floor 2: the encoder stack, its heads, its sizes by name. Tensors and config in, tensors out; no files."""
