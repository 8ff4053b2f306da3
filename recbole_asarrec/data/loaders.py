"""RecBole's data loaders over rows of similar length, trimmed to the longest of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from recbole.data.dataloader import FullSortEvalDataLoader, TrainDataLoader
from recbole.data.interaction import Interaction
from recbole.data.transform import construct_transform
from torch.utils.data import DataLoader

from recbole_asarrec.data.batches import BucketedBatches
from recbole_asarrec.data.dataset import CONTRASTIVE_ROW, last_row_of_user
from recbole_asarrec.data.rows import START, Rows

TARGETS = "target_list"  # column of a batch of sequences: the item to predict at each position, 0 for none


class _Indices:
    """A dataset whose items are the indices asked for; the loader's ``collate_fn`` does the rest."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        return index


class _BucketedLoader:
    """Set-up shared by the loaders: RecBole's attributes, this package's batches."""

    config: Any
    step: int
    _dataset: Any

    def _set_up(
        self, config: Any, dataset: Any, sampler: Any, rows: Rows, shuffle: bool, by_positions: bool
    ) -> None:
        self.config, self._dataset, self._sampler, self.shuffle = config, dataset, sampler, shuffle
        self.rows = rows
        self.model = None
        self.is_sequential = True
        self.sample_size = len(rows)
        self.transform = construct_transform(config)
        self._init_batch_size_and_step()  # type: ignore[attr-defined]
        processes = 1 if config["single_spec"] else config["world_size"]
        rank = 0 if config["single_spec"] else config["local_rank"] + config["offset"]
        lengths = rows[rows.histories.length_field].numpy()
        generator = torch.Generator()
        generator.manual_seed(config["seed"])
        DataLoader.__init__(
            self,  # type: ignore[arg-type]
            dataset=_Indices(len(rows)),  # type: ignore[arg-type]
            sampler=BucketedBatches(
                lengths, self.step, config["seed"], shuffle, by_positions, rank, processes
            ),  # type: ignore[attr-defined]
            batch_size=None,
            collate_fn=self.collate_fn,  # type: ignore[attr-defined]
            num_workers=config["worker"],
            generator=generator,
        )

    def _materialize(self, index: np.ndarray) -> Interaction:
        """The rows of a batch, as wide as its longest or as the backbone needs."""
        rows = self.rows[index]
        cut = rows.materialize(rows.longest() if self.config.model_class.padding_invariant else None)
        return self._dataset.join(cut)


class PrefixLoader(_BucketedLoader, TrainDataLoader):
    """RecBole's training rows: a history and the item that follows it."""

    def __init__(self, config: Any, dataset: Any, sampler: Any, shuffle: bool = False) -> None:
        self._set_neg_sample_args(
            config, dataset, config["MODEL_INPUT_TYPE"], config["train_neg_sample_args"]
        )
        self._set_up(config, dataset, sampler, dataset.inter_feat, shuffle, by_positions=False)

    def collate_fn(self, index: np.ndarray) -> Interaction:
        """Materialize the rows and draw their negatives."""
        return self._neg_sampling(self.transform(self._dataset, self._materialize(index)))


class SequenceLoader(_BucketedLoader, TrainDataLoader):
    """A user's sequence in one row, a target at every position; ``batch_by`` says what a batch counts."""

    def __init__(self, config: Any, dataset: Any, sampler: Any, shuffle: bool = False) -> None:
        self.neg_sample_args = {"distribution": "none", "sample_num": "none"}  # the model draws its own
        self._set_up(
            config,
            dataset,
            sampler,
            sequence_rows(dataset),
            shuffle,
            by_positions=config["batch_by"] == "targets",
        )

    def collate_fn(self, index: np.ndarray) -> Interaction:
        """Materialize the sequences and what follows each of their items."""
        rows = self.rows[index]
        width = rows.longest()
        batch = rows.materialize(width)
        batch[TARGETS] = rows.padded(self._dataset.item_id_list_field, width, ahead=1)
        return self._dataset.join(batch)


class EvalLoader(_BucketedLoader, FullSortEvalDataLoader):
    """Full ranking over rows of similar length."""

    def __init__(self, config: Any, dataset: Any, sampler: Any, shuffle: bool = False) -> None:
        self.uid_field, self.iid_field = dataset.uid_field, dataset.iid_field
        self.gives_history = bool(config["exclude_history"])
        self._set_up(config, dataset, sampler, dataset.inter_feat, shuffle=False, by_positions=False)

    def collate_fn(self, index: np.ndarray) -> tuple[Interaction, Any, torch.Tensor, torch.Tensor]:
        """As RecBole's: the rows, what to leave out of the ranking, and where the positives are."""
        batch = self.transform(self._dataset, self._materialize(index))
        seen = None
        if self.gives_history:
            seen = self.rows[index].seen(self._dataset.item_id_list_field, self.iid_field)
        return batch, seen, torch.arange(len(batch)), batch[self.iid_field]


def sequence_rows(dataset: Any) -> Rows:
    """Cover the targets of every user with sequences of at most L, the last one ending at the last target.

    Args:
        dataset: training rows; the targets of a user are consecutive interactions.

    Returns:
        A row a sequence; position p of a sequence of length m has the p-th interaction as its input and
        the one after it as its target. A user's last sequence is marked.
    """
    rows: Rows = dataset.inter_feat
    longest = rows.histories.longest
    users = rows[dataset.uid_field].numpy()
    target = (rows[START] + rows[rows.histories.length_field]).numpy()  # index among all interactions
    last = last_row_of_user(users)
    owner, newest = users[last], target[last]
    begins = np.full(int(owner.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(begins, users, target)
    count = newest - begins[owner] + 1  # targets of each user
    number = -(-count // longest)  # sequences of each user
    each = np.repeat(np.arange(len(owner)), number)
    back = np.arange(len(each)) - np.repeat(np.cumsum(number) - number, number)  # 0 = the newest sequence
    end = newest[each] - back * longest  # its last target
    length = np.minimum(longest, end - begins[owner[each]] + 1)
    index = torch.from_numpy(np.flatnonzero(last)[each])
    made = {name: column[index] for name, column in rows.interaction.items()}
    made[START] = torch.from_numpy(end - length)
    made[rows.histories.length_field] = torch.from_numpy(length)
    made[dataset.iid_field] = rows.histories.fields[dataset.item_id_list_field][torch.from_numpy(end)]
    made[CONTRASTIVE_ROW] = torch.from_numpy(back == 0)
    return Rows(made, rows.histories)
