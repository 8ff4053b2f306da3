"""Histories from Parquet files and recommendations to them, through pyarrow (the extra ``parquet``)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from recbole_asarrec.errors import UserError
from recbole_asarrec.files import atomic_write
from recbole_asarrec.inference.topk import TopItems
from recbole_asarrec.inference.window import WINDOW, History, Layout, Source, Window

_BUFFER = 1 << 20  # of a column that is read; without it a whole row group is held
_ROW_GROUP = 32 * WINDOW  # rows of a file that is written


def _arrow(part: str = "") -> Any:
    """The module ``pyarrow`` or a part of it.

    Raises:
        UserError: it is not installed.
    """
    try:
        return importlib.import_module(f"pyarrow{part}")
    except ImportError as error:
        raise UserError("Parquet files are read and written by pyarrow. Run: pip install pyarrow") from error


def source(file: IO[bytes], name: str) -> Source:
    """The histories of an open Parquet file: the column ``history``, and ``user`` if there is one.

    Raises:
        UserError: it is no Parquet file or has no such column.
    """
    pa, parquet = _arrow(), _arrow(".parquet")
    try:
        table = parquet.ParquetFile(file, buffer_size=_BUFFER, pre_buffer=False)
        columns = table.schema_arrow.names
    except (pa.ArrowInvalid, OSError) as error:
        raise UserError(f"The file '{name}' is not a Parquet file: {_first_line(error)}") from error
    if "history" not in columns:
        raise UserError(
            f"The file '{name}' must have a column 'history'; it has {', '.join(columns) or 'none'}."
        )
    kind = table.schema_arrow.field("history").type
    listed = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(is_one(kind) for is_one in listed):
        raise UserError(f"The column 'history' of '{name}' must hold lists of items, but holds {kind}.")
    known = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_floating)
    if not any(is_one(kind.value_type) for is_one in known):
        raise UserError(
            f"The column 'history' of '{name}' holds lists of {kind.value_type}; an item is a text or a "
            "number."
        )
    wanted = [column for column in ("user", "history") if column in columns]
    return Source(Layout(name, ".parquet"), _windows(table, wanted, name), table.metadata.num_rows)


def _windows(table: Any, columns: list[str], name: str) -> Iterator[Window]:
    pa = _arrow()
    first = 1
    try:
        for batch in table.iter_batches(WINDOW, columns=columns, use_threads=False):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield Window(first, sink.getvalue().to_pybytes(), batch.num_rows)
            first += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"The file '{name}' cannot be read from row {first:,} on: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".") + "."


def parse(window: Window, name: str) -> Iterator[History]:
    """User and items of each row of a window; a user without a name is the number of the row."""
    batch = _arrow().ipc.open_stream(window.body).read_all()
    histories = batch.column("history").to_pylist()
    users: Sequence[Any] = (
        batch.column("user").to_pylist() if "user" in batch.column_names else [None] * len(batch)
    )
    for number, (user, items) in enumerate(zip(users, histories), window.first):
        if items is None:
            raise UserError(f"Row {number} of '{name}' has no history; give it an empty list.")
        if None in items:
            raise UserError(f"Row {number} of '{name}' has the item None; an item is a text or a number.")
        yield str(number if user is None else user), [str(item) for item in items]


class ParquetResults:
    """Recommendations as rows ``user, items, scores``.

    What is unfinished is an Arrow stream, which can be cut after any window; a Parquet file cannot.

    Args:
        tokens: of the items, by id.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        pa = _arrow()
        self._tokens = pa.array(tokens, pa.string())
        self._schema = pa.schema(
            {"user": pa.string(), "items": pa.list_(pa.string()), "scores": pa.list_(pa.float32())}
        )

    @property
    def header(self) -> bytes:
        """What an Arrow stream begins with."""
        return self._schema.serialize().to_pybytes()

    def format(self, users: Sequence[str], best: TopItems) -> bytes:
        """The rows of a window as a message of the stream."""
        pa = _arrow()
        counts = best.counts().numpy()
        real = np.arange(best.items.size(1)) < counts[:, None]  # [B, k]
        ends = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        items = self._tokens.take(pa.array(best.items.numpy()[real]))
        scores = pa.array(best.scores.numpy()[real])
        names = pa.array([user.encode("utf-8", "backslashreplace").decode() for user in users], pa.string())
        lists = [pa.ListArray.from_arrays(ends, items), pa.ListArray.from_arrays(ends, scores)]
        return pa.record_batch([names, *lists], schema=self._schema).serialize().to_pybytes()

    @staticmethod
    def finish(part: Path, target: Path) -> None:
        """Write the Parquet file from the stream; it appears whole or not at all."""
        pa, parquet = _arrow(), _arrow(".parquet")
        with (
            open(part, "rb") as file,
            pa.ipc.open_stream(file) as stream,
            atomic_write(target, "wb") as sink,
            parquet.ParquetWriter(sink, stream.schema, compression="zstd") as writer,
        ):
            held: list[Any] = []
            for batch in stream:
                held.append(batch)
                if sum(map(len, held)) >= _ROW_GROUP:
                    writer.write_table(pa.Table.from_batches(held))
                    held = []
            if held:
                writer.write_table(pa.Table.from_batches(held))
        part.unlink()
