"""Text: tokenizers and their trainers, corpora, sentences, labelled tables. Files in, ids and rows out."""
