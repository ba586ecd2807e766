"""Training cost estimates (`plan`) and inference benchmarks (`bench`)."""
