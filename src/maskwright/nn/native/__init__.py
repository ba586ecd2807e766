"""C++ for CPUs with AVX-512: layers of encoders in inference, and what layers compute besides products in training."""
