"""The inference engine: what encodes in place of the modules once a model is only used.

`engine.Engine` is attached to a model by `inference.ready.place`; from then on `Model.encode` goes through it wherever
it runs under inference mode. `choice` says what serves on which machine, `operators` holds what is private to torch,
`layers` and `encoder` are the network with its weights packed, `attention` its attention, `steps` what reads one more
token of each row in generation and translation.
"""
