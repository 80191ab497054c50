"""Step models on ONNX Runtime, which is imported when the first one is opened."""

from edgespec.backend.onnx.session import OnnxSettings
from edgespec.backend.onnx.step import OnnxStep

__all__ = ["OnnxSettings", "OnnxStep"]
