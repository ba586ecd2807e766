"""Inference engine: forward passes with prepacked weights.

`inference.ready.place` attaches `engine.Engine` to a model; `Model.encode` then uses it under inference mode. `choice`
selects the kernels, `operators` wraps private torch operators, `layers` and `encoder` are the network with prepacked
weights and the decoding steps of generation and translation, and `attention` its attention.
"""
