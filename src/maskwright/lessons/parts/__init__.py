"""Code that only lessons use."""
