"""
Asar
################################################

Reference:
    "AsarRec: Adaptive Sequential Augmentation for Robust Self-supervised Sequential Recommendation."
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recbole_asarrec.augment import (
    Drawn,
    FixedViews,
    MaskedPrediction,
    MatrixViews,
    View,
    carry_gradient,
    meeting_places,
    operations_of,
)
from recbole_asarrec.config.resolve import resolve
from recbole_asarrec.config.settings import AsarSettings
from recbole_asarrec.data import CONTRASTIVE_ROW, TARGETS, AsarDataset, cached_neighbours
from recbole_asarrec.errors import ConfigError
from recbole_asarrec.kernels.dropout import use_byte_dropout
from recbole_asarrec.kernels.fused import use_fused_gelu
from recbole_asarrec.losses import (
    diversity_loss,
    info_nce,
    ndcg_floor,
    next_item,
    semantic_loss,
    sequence_ndcg,
)
from recbole_asarrec.models.contrastive_batch import Compared
from recbole_asarrec.models.monitor import Health
from recbole_asarrec.models.probe import refuse_what_cannot_be_augmented
from recbole_asarrec.recipe.denoise import chance_to_leave_out, choose_kept, shuffled
from recbole_asarrec.recipe.denoised_batch import Columns, keep, sequences
from recbole_asarrec.recipe.ema import WeightAverage
from recbole_asarrec.recipe.item_init import start_from_cooccurrence


MOST_POSITIONS = 512  # of a batch that are compared: enough negatives, and pairs cost their square


def _rows_within(length: Tensor, most: int) -> Tensor:
    """All rows of ``length`` ``[B]`` or, if they have more positions than ``most``, some at random, ``[R]``."""
    rows = torch.arange(len(length), device=length.device)
    if int(length.sum()) <= most:
        return rows
    rows = torch.randperm(len(length)).to(length.device)
    return rows[length[rows].cumsum(0) <= most].sort().values


class Asar(nn.Module):
    """Put before a RecBole sequential recommender: ``class AsarSASRec(Asar, SASRec)``.

    Adds two terms to the backbone's loss. The contrastive term pulls the two views of a user together; its
    gradient is reversed on its way into the augmenter, so one backward pass and one optimiser train both
    players. The augmenter term keeps the views diverse and faithful. ``predict`` and ``full_sort_predict``
    stay the backbone's, and never touch the augmenter.

    The backbone must encode ``forward(item_seq[, item_seq_len]) → [B, d]`` through ``self.item_embedding``.
    It is ``causal`` if what it computes at a place depends on the places before alone and is picked by
    ``gather_indexes``; it ``trims`` if padding on the right does not change its output; it
    ``scores_by_product`` if an item's score is the inner product of its embedding with the encoded history.
    """

    backbone: type
    _asks_for_length = True
    _every_place = False
    causal = False
    trims = False
    scores_by_product = False
    settings_class = AsarSettings
    loss_names = ("recommendation", "contrastive", "augmenter")

    # what RecBole's SequentialRecommender brings
    item_embedding: nn.Embedding
    loss_fct: nn.Module
    loss_type: str
    n_items: int
    max_seq_length: int
    USER_ID: str
    ITEM_SEQ: str
    ITEM_SEQ_LEN: str
    POS_ITEM_ID: str

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)  # type: ignore[call-arg]
        resolve(config, dataset)
        self.settings: AsarSettings = AsarSettings.read(config)
        self.average: WeightAverage | None = None
        refuse_what_cannot_be_augmented(self)
        with torch.random.fork_rng(devices=[]):  # the backbone's random stream stays its own
            self.augmenter = self._make_augmenter(dataset)
            if self.settings.item_start == "cooccurrence":
                start_from_cooccurrence(self.item_embedding, dataset)
        self.health = Health(twins=set(operations_of(self.settings.augmentation)) == {"dropout"})
        if self.settings.byte_dropout:
            use_byte_dropout(self)
        if self.settings.fused:
            use_fused_gelu(self)
        if not self._has_softmax:
            what = f"{self.backbone.__name__} with loss_type {self.loss_type}"
            next_item.refuse_without_softmax(self.settings, what)
        self.next_item = next_item.NextItemLoss(
            self.settings.robustness, self.settings.seen_weight, self.settings.fused
        )
        if self.settings.averaging:
            own = ((name, one) for name, one in self.named_parameters() if not name.startswith("augmenter."))
            self.average = WeightAverage(own, self.settings.averaging)

    @property
    def _has_softmax(self) -> bool:
        return self.scores_by_product and self.loss_type == "CE"

    def train(self, mode: bool = True) -> Asar:
        """Training mode has the weights that are trained, evaluation mode their average."""
        if self.average is not None:
            (self.average.hide if mode else self.average.show)()
        return super().train(mode)

    def _make_augmenter(self, dataset: Any) -> nn.Module:
        settings, size, longest = self.settings, self.item_embedding.embedding_dim, self.max_seq_length
        if settings.augmentation in ("asar", "random_matrix"):
            return MatrixViews(settings, size, self.n_items, longest)
        if settings.augmentation == "s3rec":
            return MaskedPrediction(settings, size, self.n_items)
        informed = any(name.startswith("coserec") for name in operations_of(settings.augmentation))
        if informed and settings.similarity == "item_cf" and isinstance(dataset, AsarDataset):
            return FixedViews(settings, self.n_items, longest, torch.from_numpy(cached_neighbours(dataset)))
        return FixedViews(settings, self.n_items, longest)

    @classmethod
    def best_training(cls, config: Mapping[str, Any]) -> str:
        """What ``training: auto`` stands for: all positions at once wherever that is possible."""
        return "prefix" if cls._why_no_windows(config) else "all_positions"

    @classmethod
    def refuse_conflicts(cls, config: Mapping[str, Any]) -> None:
        """Keys that are right by themselves and wrong together, or wrong for this backbone."""
        if config["training"] == "all_positions" and (reason := cls._why_no_windows(config)):
            raise ConfigError(f"{reason}; use training: prefix.")

    @classmethod
    def _why_no_windows(cls, config: Mapping[str, Any]) -> str | None:
        if not cls.causal:
            return f"{cls.backbone.__name__} looks ahead, so it cannot train all_positions of a sequence"
        if config["batching"] != "like_length":
            return "training: all_positions needs batching: like_length"
        if config.get("benchmark_filename") is not None:
            return "training: all_positions cannot use benchmark_filename's own rows"
        return None

    def gather_indexes(self, output: Tensor, gather_index: Tensor) -> Tensor:
        """RecBole's choice of the last place, or every place while :meth:`_encode_every_place` asks."""
        return output if self._every_place else super().gather_indexes(output, gather_index)  # type: ignore[misc]

    def calculate_loss(self, interaction: Any) -> Tensor | tuple[Tensor, ...]:
        """Return ``(recommendation, contrastive[, augmenter])``, or the backbone's loss alone.

        It is alone at weight 0 and where no views are made; fixed operations have no term of their own.

        Raises:
            DivergedError: one of them is not finite.
        """
        if self.average is not None and self.training:
            self.average.before_step()
        losses = self._losses(interaction)
        each = losses if isinstance(losses, tuple) else (losses,)
        self.health.refuse_diverged(self, self.loss_names, each)
        return losses

    def _losses(self, interaction: Any) -> Tensor | tuple[Tensor, ...]:
        interaction = self._cleaned(interaction) if self.settings.cleaning else interaction
        recommendation = self._recommendation(interaction)
        if not self.settings.compares_views:
            return recommendation
        rows = self._contrastive_rows(interaction)  # [R]
        if len(rows) == 0:
            nothing = recommendation.new_zeros(())
            return (recommendation, nothing, nothing)[: 3 if self.settings.augmentation == "asar" else 2]
        return (recommendation, *self._game(*self.compared(interaction, rows)))

    def compared(self, interaction: Any, rows: Tensor) -> Compared:
        """Of a batch of rows or windows, the histories at ``rows`` ``[R]``, to make views of."""
        length = interaction[self.ITEM_SEQ_LEN][rows]
        history = interaction[self.ITEM_SEQ][rows, : int(length.max())]
        # windows hold all prefixes of a history, so views of them can be compared at every place
        everywhere = TARGETS in interaction and self.settings.contrastive_rows != "user"
        target, users = interaction[self.POS_ITEM_ID][rows], interaction[self.USER_ID][rows]
        return Compared(history, length, target, users, everywhere)

    def encode(self, history: Tensor, length: Tensor) -> Tensor:
        """The backbone's ``forward``, ``[B, n], [B] → [B, d]``; some backbones do not ask for the length."""
        return self.forward(history, length) if self._asks_for_length else self.forward(history)

    def _recommendation(self, interaction: Any) -> Tensor:
        """The backbone's own loss, of a batch of rows or of windows."""
        history, length = interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN]
        if TARGETS in interaction:
            targets = interaction[TARGETS]  # [B, n]
            real = targets > 0
            encoded = self._encode_every_place(history, length)[real]
            return self._predict(encoded, targets[real], lambda: next_item.every_prefix(history)[real])
        if self._has_softmax and not self.next_item.plain:
            encoded = self.encode(history, length)
            return self._predict(encoded, interaction[self.POS_ITEM_ID], lambda: history)
        return super().calculate_loss(interaction)  # type: ignore[misc]

    def _cleaned(self, interaction: Any) -> Any:
        """A batch without what :mod:`~recbole_asarrec.recipe.denoise` leaves out of its histories."""
        columns = Columns(self.ITEM_SEQ, self.ITEM_SEQ_LEN, self.POS_ITEM_ID)
        sequence = sequences(interaction, columns)  # [B, n+1]
        kept = choose_kept(sequence, self.chances_to_leave_out(sequence))
        self.health.observe_cleaning(sequence, kept)
        return keep(interaction, columns, sequence, kept)

    def chances_to_leave_out(self, sequence: Tensor) -> Tensor:
        """Of each item of sequences ``[B, n]``, to be left out of what is learned from, ``[B, n]``."""
        strength = float(self.settings.cleaning)
        chances = chance_to_leave_out(sequence, self.item_embedding.weight.detach(), strength)
        return shuffled(chances, sequence > 0) if self.settings.augmentation == "random_matrix" else chances

    def _encode_every_place(self, history: Tensor, length: Tensor) -> Tensor:
        """What the backbone makes of every prefix, ``[B, n] → [B, n, d]``."""
        self._every_place = True
        try:
            return self.forward(history, length)
        finally:
            self._every_place = False

    def _predict(self, encoded: Tensor, targets: Tensor, history: Callable[[], Tensor]) -> Tensor:
        """The loss of ``targets`` ``[P]`` given ``encoded`` ``[P, d]``, made of ``history`` ``[P, n]``."""
        if self.loss_type == "CE":
            return self.next_item(encoded, self.item_embedding.weight, targets, history)
        # any item but the target, as RecBole's repeatable sampler draws
        others = torch.randint(1, max(self.n_items - 1, 2), targets.shape, device=targets.device)
        others = others + (others >= targets)
        positive, negative = ((encoded * self.item_embedding(items)).sum(-1) for items in (targets, others))
        return self.loss_fct(positive, negative)

    def _contrastive_rows(self, interaction: Any) -> Tensor:
        """Indices of the rows or windows of which views are made, ``[R]``."""
        choice, size = self.settings.contrastive_rows, len(interaction[self.ITEM_SEQ_LEN])
        device = interaction[self.ITEM_SEQ_LEN].device
        if choice == "auto" and TARGETS in interaction:
            # every second batch on average: as many pairs as half of each, with all the batch as negatives
            if torch.rand(()) >= 0.5:
                return torch.arange(0, device=device)
            return _rows_within(interaction[self.ITEM_SEQ_LEN], MOST_POSITIONS)
        if choice != "all" and CONTRASTIVE_ROW in interaction:
            return interaction[CONTRASTIVE_ROW].nonzero().squeeze(1)
        return torch.arange(size, device=device)

    def _game(
        self, history: Tensor, length: Tensor, target: Tensor, users: Tensor, everywhere: bool = False
    ) -> tuple[Tensor, ...]:
        """The weighted contrastive term of R histories ``[R, n]``, and the augmenter's where it learns.

        Views are compared as wholes, or ``everywhere``: at every place where both tell the same.
        """
        options = self.settings
        if isinstance(self.augmenter, MaskedPrediction):
            predicted = self.augmenter(history, length, target, self._encode_view, self.item_embedding)
            return (options.contrastive_weight * predicted,)
        drawn = self.draw(history, length, target)
        contrast, pairs = self.contrast(drawn, users, history.size(1), everywhere)
        self.health.observe(drawn.views, contrast, pairs)
        if drawn.transforms is None:
            return (options.contrastive_weight * contrast,)
        with torch.autocast(history.device.type, enabled=False):
            exponential = options.ndcg_gain == "exponential"
            scores = tuple(sequence_ndcg(one, length, exponential) for one in drawn.transforms)
            floor = ndcg_floor(length, options.perturbation, options.min_edits, exponential)
            self.health.observe_plans(drawn.transforms, length, scores, floor)
            if drawn.embedded is None:
                return (options.contrastive_weight * contrast,)
            first_plan, second_plan = drawn.transforms
            distance = diversity_loss(
                first_plan, second_plan, length, options.diversity_margin, options.diversity_ratio
            )
            penalty = options.diversity_weight * distance
            penalty = penalty + options.semantic_weight * semantic_loss(scores, floor)
        return options.contrastive_weight * contrast, penalty

    def draw(self, history: Tensor, length: Tensor, target: Tensor) -> Drawn:
        """The two views of R histories ``[R, n]`` that are followed by ``target`` ``[R]``."""
        return self.augmenter(history, length, target, self._shown_to_augmenter)

    def contrast(self, drawn: Drawn, users: Tensor, width: int, everywhere: bool) -> tuple[Tensor, int]:
        """InfoNCE of views of ``users`` ``[R]`` whose histories are ``width`` wide, and of how many pairs."""
        first, second = self._encode(drawn, everywhere)
        if everywhere:
            row, one, two = meeting_places(*drawn.views, width)  # [P]
            first, second, users = first[row, one], second[row, two], users[row]
        options = self.settings
        return info_nce(first, second, users, options.temperature, options.symmetric), len(users)

    def _shown_to_augmenter(self, ids: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Detached embeddings of ids ``[R, N]`` with position, if asked for, and without, ``[R, N, d]``.

        Positions are the backbone's; the candidates after the first n have none.
        """
        plain = self.item_embedding(ids).detach().float()
        positions = getattr(self, "position_embedding", None)
        if not self.settings.encode_position or positions is None:
            return plain, plain
        place = self.places((ids[:, :n] != 0).sum(1), n)
        history = plain[:, :n] + positions(place).detach().float()
        return torch.cat([history, plain[:, n:]], dim=1), plain

    def places(self, length: Tensor, n: int) -> Tensor:
        """Where the backbone sees the items of histories of ``length`` ``[R]``, ``[R, n]``."""
        return torch.arange(n, device=length.device).expand(len(length), n)

    def _encode_view(self, view: View) -> Tensor:
        """Run the backbone over one view, ``[R, n] → [R, d]``."""
        width = view.items.size(1) if self.trims else self.max_seq_length
        return self.encode(F.pad(view.items, (0, width - view.items.size(1))), view.length)

    def _encode(self, drawn: Drawn, everywhere: bool = False) -> tuple[Tensor, ...]:
        """Run the backbone once over both views: ``2 × [R, n] → 2 × [R, d]``, everywhere ``2 × [R, n, d]``.

        The augmenter sees InfoNCE reversed and unweighted, as the paper's L_info, whatever λ is.
        """
        width = max(view.items.size(1) for view in drawn.views) if self.trims else self.max_seq_length
        items = torch.cat([F.pad(view.items, (0, width - view.items.size(1))) for view in drawn.views])
        length = torch.cat([view.length for view in drawn.views])
        encode = self._encode_every_place if everywhere else self.encode
        if drawn.transforms is None or drawn.embedded is None:
            return encode(items, length).chunk(2)
        both = View(*(torch.cat(parts) for parts in zip(*drawn.views)))
        soft = torch.cat([one.soft for one in drawn.transforms])
        embedded = drawn.embedded.repeat(2, 1, 1)
        scale = -self.settings.reversal / self.settings.contrastive_weight

        def attach(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
            return carry_gradient(output, soft, embedded, both, scale) if inputs[0] is items else None

        handle = self.item_embedding.register_forward_hook(attach)
        try:
            return encode(items, length).chunk(2)
        finally:
            handle.remove()
