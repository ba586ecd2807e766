"""Floor 1: the parts of an encoder, as functions and modules on tensors. No files, no config objects.

Shapes are written in words, the same ones everywhere:

    batch       padded rows of a transformers-shaped call        seq       their padded length
    tokens      tokens of a pack, all sequences end to end       sequences how many sequences the pack holds
    hidden      width of a token's vector                        head_dim  width of one head, hidden / heads
    heads       attention heads                                  layers    encoder layers
    intermediate  width inside the feed-forward network          vocab     tokens the tokenizer knows
    positions   places whose token is predicted                  labels    classes of a task
    count, length  sequences of one run, and tokens in each of them
"""
