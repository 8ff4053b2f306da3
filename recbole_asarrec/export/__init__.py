"""From a checkpoint to a folder that NumPy and ONNX Runtime can serve (:mod:`recbole_asarrec.serving`)."""

from recbole_asarrec.export.command import Exported, export_checkpoint, export_model

__all__ = ["Exported", "export_checkpoint", "export_model"]
