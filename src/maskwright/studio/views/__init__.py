"""What each page asks for: a request model, the product's function, and its result as JSON. No arithmetic here."""
