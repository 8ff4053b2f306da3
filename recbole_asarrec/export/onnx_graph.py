"""The encoder as an ONNX graph, compared with torch."""

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger
from pathlib import Path

import torch
from torch import Tensor, nn

from recbole_asarrec.errors import ExportError, UserError
from recbole_asarrec.export.encoder import HistoryEncoder, full_scores, random_histories, tolerance
from recbole_asarrec.models.fmlprec import FilterBlock, FilterLayer
from recbole_asarrec.serving.folder import ENCODER
from recbole_asarrec.serving.recommender import Encoder

_OPSET = 17
_MOST_BYTES = 2**31 - 1  # of an ONNX file


def check_packages() -> None:
    """Raise a UserError with the command if ONNX or ONNX Runtime is not installed."""
    missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"Exporting needs {' and '.join(missing)}. Run: pip install {' '.join(missing)}")


class RealFilterLayer(nn.Module):
    """FMLP-Rec's filter without complex numbers: the Fourier transforms are products with real matrices."""

    def __init__(self, layer: FilterLayer, length: int) -> None:
        super().__init__()
        self.norm = layer.norm
        spectrum = torch.view_as_complex(layer.filter.detach())  # [F, d]
        self.real, self.imaginary = spectrum.real.T.contiguous(), spectrum.imag.T.contiguous()  # [d, F]
        forward = torch.fft.rfft(torch.eye(length), dim=1, norm="ortho")  # [L, F]
        self.cosine, self.sine = forward.real.contiguous(), forward.imag.contiguous()
        unit = torch.eye(len(spectrum))
        inverse = [torch.fft.irfft(part, n=length, dim=1, norm="ortho") for part in (unit + 0j, unit * 1j)]
        self.from_real, self.from_imaginary = inverse  # [F, L]
        self.kernel = torch.fft.irfft(spectrum, n=length, dim=0).flip(0)  # [L, d]

    def forward(self, hidden: Tensor) -> Tensor:
        """As :meth:`FilterLayer.forward`, ``[B, L, d] → [B, L, d]``."""
        turned = hidden.transpose(1, 2)  # [B, d, L]
        real, imaginary = turned @ self.cosine, turned @ self.sine  # [B, d, F]
        filtered = (real * self.real - imaginary * self.imaginary) @ self.from_real
        filtered = filtered + (real * self.imaginary + imaginary * self.real) @ self.from_imaginary
        output: Tensor = self.norm(filtered.transpose(1, 2) + hidden)
        return output

    def last(self, hidden: Tensor) -> Tensor:
        """As :meth:`FilterLayer.last`, ``[B, L, d] → [B, 1, d]``."""
        output: Tensor = self.norm((hidden * self.kernel).sum(1, keepdim=True) + hidden[:, -1:])
        return output


@contextmanager
def _without_fourier(encoder: HistoryEncoder) -> Iterator[None]:
    """The ONNX exporter knows no Fourier transforms; inside, filters do without."""
    blocks = [block for block in encoder.modules() if isinstance(block, FilterBlock)]
    filters = [block.mix for block in blocks]
    for block in blocks:
        block.mix = RealFilterLayer(block.mix, encoder.max_length)  # type: ignore[assignment]
    try:
        yield
    finally:
        for block, mix in zip(blocks, filters):
            block.mix = mix


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns of every constant it traces; :func:`check` is what decides."""
    loggers = [getLogger(name) for name in ("torch.onnx", "torch.onnx._internal")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel("CRITICAL")
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels):
                logger.setLevel(level)


@torch.no_grad()
def to_onnx(encoder: HistoryEncoder) -> bytes:
    """Trace the encoder for any batch and any length up to L.

    Raises:
        ExportError: it does something that ONNX has no word for, or is too large.
    """
    name = type(encoder.model).__name__
    weights = sum(one.numel() * one.element_size() for one in encoder.parameters())
    if weights > _MOST_BYTES:
        raise ExportError(
            f"{name} cannot be exported: an ONNX file holds 2 GiB, its weights {weights >> 20:,} MiB."
        )
    example = random_histories(encoder.model.n_items - 1, encoder.max_length, 3)
    try:
        with _quiet(), _without_fourier(encoder), tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / ENCODER
            torch.onnx.export(
                encoder,
                (example[:, : max(1, encoder.max_length - 1)],),
                str(made),
                dynamo=False,
                opset_version=_OPSET,
                input_names=["items"],
                output_names=["users"],
                dynamic_axes={"items": {0: "batch", 1: "length"}, "users": {0: "batch"}},
            )
            return made.read_bytes()
    except Exception as error:  # the exporter raises anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ExportError(f"{name} cannot be exported: torch cannot write it as ONNX ({reason}).") from error


@torch.no_grad()
def check(encoder: HistoryEncoder, graph: bytes, vectors: Tensor, count: int) -> float:
    """Compare ONNX Runtime's scores with the model's own ``full_sort_predict`` on ``count`` random histories.

    Histories go through it all at once and one by one, at full length and trimmed.

    Args:
        encoder: the one that was exported.
        graph: what :func:`to_onnx` made of it.
        vectors: item vectors, ``[V, d]``.
        count: how many histories.

    Returns:
        The largest difference of two scores.

    Raises:
        ExportError: a score differs by more than float rounding explains.
    """
    model = encoder.model
    run = Encoder(graph, vectors.size(1))
    items = random_histories(len(vectors), encoder.max_length, count, seed=1)
    expected = full_scores(model, items)[:, 1:]  # [B, V]
    length = (items != 0).sum(1)
    largest = 0.0
    try:
        for rows in (slice(None), *(slice(row, row + 1) for row in range(min(count, 8)))):
            for width in {encoder.max_length, int(length[rows].max())}:
                users = torch.from_numpy(run(items[rows, :width].contiguous().numpy()))
                difference = (users @ vectors.T - expected[rows]).abs().max().item()
                largest = max(largest, difference if difference == difference else float("inf"))
    except Exception as error:  # ONNX Runtime's classes differ between releases
        raise ExportError(
            f"{type(model).__name__} cannot be exported: its encoder is not one graph for all histories "
            "(it computes in Python or NumPy what depends on the items)."
        ) from error
    if largest > tolerance(expected):
        raise ExportError(
            f"{type(model).__name__} cannot be exported: ONNX Runtime's scores differ from torch's by "
            f"up to {largest:.2g}."
        )
    return largest
