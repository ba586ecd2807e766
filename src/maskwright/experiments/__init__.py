"""Comparisons that train many models: layers, class imbalance, the model ladder, benchmarks."""
