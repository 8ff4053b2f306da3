"""The folder that ``export`` writes. All of it is data, and each file is checked before it is used.

``encoder.onnx`` turns histories of item ids into user vectors, ``items.npy`` holds the item vectors,
``items.txt`` the item tokens, and ``model.json`` describes the model and has the checksums of the others. An
item's id is its line in ``items.txt``, from 1 on: 0 is padding. ``items.faiss`` is there after
``export --ann``.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from recbole_asarrec.errors import ExportError

MANIFEST = "model.json"
ENCODER, VECTORS, TOKENS, INDEX = "encoder.onnx", "items.npy", "items.txt", "items.faiss"
REQUIRED = (ENCODER, VECTORS, TOKENS)
FORMAT = 1

_GIB = 1 << 30
_MOST_BYTES = {MANIFEST: 4 << 20, ENCODER: 2 * _GIB, VECTORS: 64 * _GIB, TOKENS: 4 * _GIB, INDEX: 128 * _GIB}
_MOST = {"num_items": 1 << 31, "dim": 1 << 16, "max_length": 1 << 20}
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """What ``model.json`` says, checked.

    Attributes:
        folder: where it was read.
        num_items: items of the catalogue, without padding.
        dim: d, the size of a vector.
        max_length: items of a history that the encoder reads, the newest ones.
        content: the whole of it.
    """

    folder: Path
    num_items: int
    dim: int
    max_length: int
    content: dict[str, Any]

    def has(self, name: str) -> bool:
        """Whether the export has this file."""
        return name in self.content["files"]

    def read(self, name: str) -> bytes:
        """The content of a file of the export.

        Raises:
            ExportError: it is missing, or is not the file that was exported.
        """
        with self._open(name) as file:
            content = file.read(self._size(name) + 1)
        self._compare(name, len(content), hashlib.sha256(content).hexdigest())
        return content

    def check(self, name: str) -> None:
        """As :meth:`read`, without keeping the content."""
        digest, size = hashlib.sha256(), 0
        with self._open(name) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
        self._compare(name, size, digest.hexdigest())

    def _size(self, name: str) -> int:
        size: int = self.content["files"][name]["bytes"]
        return size

    def _open(self, name: str) -> IO[bytes]:
        file = _open_regular(self.folder / name)
        if os.fstat(file.fileno()).st_size != self._size(name):
            file.close()
            raise _changed(self.folder / name)
        return file

    def _compare(self, name: str, size: int, digest: str) -> None:
        if size != self._size(name) or digest != self.content["files"][name]["sha256"]:
            raise _changed(self.folder / name)


def _changed(path: Path) -> ExportError:
    return ExportError(
        f"'{path}' is not the file that was exported: its size or SHA-256 differs from model.json; "
        "copy the whole folder again or export the model again."
    )


def _open_regular(path: Path) -> IO[bytes]:
    """Open a file that is no device or pipe, which could be read for ever."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ExportError(f"'{path}' is not a file.")
        return open(path, "rb")
    except FileNotFoundError as error:
        raise ExportError(
            f"'{path.parent}' is not a whole exported model: it has no {path.name}; "
            "name a folder that recbole-asarrec export wrote."
        ) from error
    except OSError as error:
        raise ExportError(f"'{path}' cannot be read ({error.strerror}).") from error


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """Read and check ``model.json``.

    Raises:
        ExportError: the folder is not an exported model, or one that this release cannot read.
    """
    path = Path(folder) / MANIFEST
    with _open_regular(path) as file:
        text = file.read(_MOST_BYTES[MANIFEST] + 1)
    if len(text) > _MOST_BYTES[MANIFEST]:
        raise ExportError(f"'{path}' is larger than {_MOST_BYTES[MANIFEST] >> 20} MiB.")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ExportError(f"'{path}' is not JSON ({error}).") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise ExportError(
            f"'{path}' has the format {found!r}, but this release reads {FORMAT}; export the model again."
        )
    for key, most in _MOST.items():
        value = content.get(key)
        if type(value) is not int or not 1 <= value <= most:
            raise ExportError(f"'{path}': {key} must be a whole number from 1 to {most:,}, but is {value!r}.")
    _check_files(path, content)
    return Manifest(
        Path(folder), **{key: content[key] for key in ("num_items", "dim", "max_length")}, content=content
    )


def _check_files(path: Path, content: dict[str, Any]) -> None:
    """Names come from this module and never from the file, so that nothing outside the folder is opened."""
    files = content.get("files")
    if not isinstance(files, dict) or not set(REQUIRED) <= set(files) <= {*REQUIRED, INDEX}:
        expected = ", ".join(REQUIRED)
        raise ExportError(f"'{path}': files must name {expected}, and {INDEX} if there is an index.")
    for name, entry in files.items():
        size, digest = (entry.get(key) if isinstance(entry, dict) else None for key in ("bytes", "sha256"))
        if type(size) is not int or not isinstance(digest, str) or len(digest) != 64:
            raise ExportError(f"'{path}': files must give the bytes and the sha256 of {name}.")
        if not 0 < size <= _MOST_BYTES[name]:
            raise ExportError(f"'{path}': {name} must have 1 to {_MOST_BYTES[name]:,} bytes, not {size:,}.")


def read_vectors(manifest: Manifest) -> np.ndarray:
    """The item vectors, ``[items, d]``, without a copy of the file's content.

    Raises:
        ExportError: they are not finite ``float32`` of the size that ``model.json`` names.
    """
    content, path = manifest.read(VECTORS), manifest.folder / VECTORS
    shape = (manifest.num_items, manifest.dim)
    stream = io.BytesIO(content)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("another version")
        found, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    except ValueError as error:
        raise ExportError(f"'{path}' is not a NumPy file of version 1.0 ({error}).") from error
    whole = len(content) - stream.tell() == 4 * shape[0] * shape[1]
    if found != shape or by_columns or dtype != np.dtype("<f4") or not whole:
        raise ExportError(
            f"'{path}' must hold {shape[0]:,} × {shape[1]:,} float32 in rows, as model.json says."
        )
    vectors = np.frombuffer(content, dtype="<f4", offset=stream.tell()).reshape(shape)
    rows = max(1, _CHUNK // manifest.dim)
    if not all(np.isfinite(vectors[start : start + rows]).all() for start in range(0, shape[0], rows)):
        raise ExportError(f"'{path}' has values that are not finite.")
    return vectors


def read_tokens(manifest: Manifest) -> list[str]:
    """The item tokens, a line each.

    Raises:
        ExportError: they are not as many different lines of UTF-8 as ``model.json`` says.
    """
    path = manifest.folder / TOKENS
    try:
        *tokens, rest = manifest.read(TOKENS).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ExportError(f"'{path}' is not UTF-8 text.") from error
    if rest or len(tokens) != manifest.num_items or len(set(tokens)) != len(tokens):
        raise ExportError(f"'{path}' must hold {manifest.num_items:,} different tokens, a line each.")
    return tokens
