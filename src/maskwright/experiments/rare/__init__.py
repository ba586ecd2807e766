"""Methods for class imbalance, compared on the same rows."""
