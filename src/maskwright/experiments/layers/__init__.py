"""Which layers of a frozen encoder make the best features."""
