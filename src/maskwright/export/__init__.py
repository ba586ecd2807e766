"""Export of models as graphs.

`export.export_model` writes a folder: `network` is the executor of the Transformer stack for graphs, `program` traces
it, each `Format` (`onnx_file`, `openvino_file`, `torch_file`) writes it, and `agreement` compares it with the library
before the folder gets its name. `runtimes` runs a graph in ONNX Runtime or OpenVINO.
"""
