"""Trained networks as ONNX files, in float32 or int8. Only `runtime` and `metadata` are importable without torch."""
