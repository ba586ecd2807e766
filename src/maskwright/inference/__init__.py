"""Inference with trained models: predictions, masked tokens, generation, embeddings, search and tensor shapes."""
