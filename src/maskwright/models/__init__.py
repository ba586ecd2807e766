"""Models: the encoder and decoder stacks, their heads, and presets. Tensors and config in, tensors out; no files."""
