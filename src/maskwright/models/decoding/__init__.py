"""How the next token is chosen, whatever network gives its logits: rules, one token at a time, or beams."""
