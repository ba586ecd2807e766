"""Floor 2: the packed batch, token shards, and the order in which training sees them."""
