"""Export of models as graphs.

`export.export_model` writes a folder: `network` and `cached` are the networks for graphs, `program` traces them, a
`runtimes.Format` (`onnx_file`, `openvino_file`, `program`) writes and opens the graphs, and `agreement` compares them
with the library before the folder gets its name. `graph_model` is a model that a graph computes.
"""
