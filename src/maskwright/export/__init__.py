"""Export of models as graphs, and inference with exported folders.

`export.export_model` writes a folder: `network` is the executor of the Transformer stack for graphs, `program` traces
it, the exporters of the registry (`onnx_file`, `openvino_file`, `torch_file`) write it, `quantize` makes it int8, and
`agreement` compares it with the library before the folder gets its name. `opened` is a model whose graph runs in ONNX
Runtime or OpenVINO.
"""
