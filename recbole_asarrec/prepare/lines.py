"""The lines of a raw file, plain or gzipped: numbered, and never more than one of them in memory."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from tqdm import tqdm

from recbole_asarrec.errors import DataError

LONGEST = 1 << 24  # bytes; no known format has a longer line
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_BUFFER = 1 << 20


def _opened(raw: BinaryIO, path: Path) -> BinaryIO:
    magic = raw.read(4)
    raw.seek(0)
    if magic == _ZIP:
        raise DataError(f"'{path}' is a zip archive; unpack it and name the file inside.")
    if magic[:2] != _GZIP:
        return raw
    return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw)), _BUFFER)


def _split(stream: BinaryIO) -> Iterator[bytes | None]:
    """One line after another; None in the place of one that is too long."""
    whole = True
    while piece := stream.readline(LONGEST):
        first, whole = whole, piece.endswith(b"\n")
        if first:
            yield piece if whole or len(piece) < LONGEST else None


def read_lines(path: Path) -> Iterator[tuple[int, str | None]]:
    """Number (from 1) and text of every line that is not blank, with a progress bar over the file's bytes.

    Bytes that are not UTF-8 become U+FFFD. The text of a line beyond :data:`LONGEST` is None.

    Raises:
        DataError: the file is not there, cannot be read, or its compression is cut off or damaged.
    """
    if not path.is_file():
        raise DataError(f"There is no file '{path}'; name the raw file as its publisher gives it.")
    number = 0
    bar = tqdm(total=path.stat().st_size, unit="B", unit_scale=True, disable=not sys.stderr.isatty())
    try:
        with bar, open(path, "rb", _BUFFER) as raw:
            for number, line in enumerate(_split(_opened(raw, path)), 1):
                if number % 10_000 == 0:
                    bar.update(raw.tell() - bar.n)
                if line is None:
                    yield number, None
                    continue
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                if number == 1:
                    text = text.lstrip("\ufeff")
                if text and not text.isspace():
                    yield number, text
            bar.update(raw.tell() - bar.n)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"'{path}' is cut off or damaged after line {number} ({error}); download it again."
        ) from error
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror or error}.") from error
