"""Building blocks of the models, as functions and modules on tensors. No files, no config objects.

Shapes use these names throughout:

    batch       padded rows in the transformers layout           seq       their padded length
    tokens      tokens of a pack, all sequences concatenated     sequences number of sequences in the pack
    hidden      size of a token vector                           head_dim  size of one head, hidden / heads
    heads       attention heads                                  layers    encoder layers
    intermediate  size inside the feed-forward network           vocab     vocabulary size
    positions   positions whose token is predicted               labels    classes of a task
    count, length  sequences of one run, and tokens in each of them
"""
