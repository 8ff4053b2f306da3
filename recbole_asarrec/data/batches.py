"""Which rows go together: batches of similar length, shuffled anew each epoch from the seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler


class BucketedBatches(Sampler):
    """Yields the row indices of one batch after another.

    Rows are shuffled, sorted by length (equal lengths stay shuffled), cut into batches, and the batches are
    shuffled. Every row comes once an epoch; with several processes each batch is dealt out among them.

    Args:
        lengths: length of each row, ``[N]``.
        size: what a batch may hold: rows, or positions where ``by_positions``.
        seed: the same seed and epoch give the same batches.
        shuffle: False keeps the rows sorted by length, stably.
        by_positions: count a row as its length instead of as one.
        rank: which of the processes this is.
        processes: how many there are.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        size: int,
        seed: int,
        shuffle: bool = True,
        by_positions: bool = False,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        self.lengths, self.seed, self.shuffle = lengths, seed, shuffle
        self.rank, self.processes = rank, processes
        self.epoch = 0
        # lengths in order are the same every epoch, and so are the cuts
        held = np.cumsum(np.sort(lengths, kind="stable") if by_positions else np.ones_like(lengths))
        batch = (held - 1) // max(size, 1)
        self.cuts = np.flatnonzero(np.diff(batch)) + 1
        ends = np.append(self.cuts, len(lengths))
        if len(self.cuts) and ends[-1] - ends[-2] < processes:
            self.cuts = self.cuts[:-1]  # a process without rows would wait for the others for ever

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches come next; without it they follow one another."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.cuts) + 1

    def __iter__(self) -> Iterator[np.ndarray]:
        random = np.random.default_rng((self.seed, self.epoch))
        self.epoch += 1
        order = random.permutation(len(self.lengths)) if self.shuffle else np.arange(len(self.lengths))
        order = order[np.argsort(self.lengths[order], kind="stable")]
        batches = np.split(order, self.cuts)
        turns = random.permutation(len(batches)) if self.shuffle else range(len(batches))
        for turn in turns:
            yield batches[turn][self.rank :: self.processes]
