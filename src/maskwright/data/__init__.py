"""Data: packed batches, token shards, and corpus preparation."""
