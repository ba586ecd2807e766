"""Training cost estimates (`bench plan`) and inference benchmarks (`bench speed`)."""
