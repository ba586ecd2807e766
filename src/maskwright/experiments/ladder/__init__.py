"""Models from bag of words to BERT under one budget."""
