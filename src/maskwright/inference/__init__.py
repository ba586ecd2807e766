"""Floor 5: a trained model at work: answers, masked words, next sentences, vectors, and the shapes along the way."""
