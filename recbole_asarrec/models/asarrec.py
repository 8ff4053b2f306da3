"""
AsarRec
################################################

Reference:
    "AsarRec: Adaptive Sequential Augmentation for Robust Self-supervised Sequential Recommendation."
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recbole_asarrec.augment import (
    View,
    ViewPair,
    aligned_positions,
    carry_gradient,
    make_augmenter,
    needs_neighbours,
)
from recbole_asarrec.config.resolve import resolve
from recbole_asarrec.config.settings import AsarSettings
from recbole_asarrec.data import TARGETS, AsarDataset, Columns, UnseenNegatives, cached_neighbours
from recbole_asarrec.errors import ConfigError
from recbole_asarrec.kernels.dropout import use_byte_dropout
from recbole_asarrec.kernels.fused import use_fused_gelu
from recbole_asarrec.losses import (
    NextItemLoss,
    diversity_loss,
    every_prefix,
    info_nce,
    semantic_loss,
    sequence_quality,
)
from recbole_asarrec.models.contrastive_batch import ContrastiveBatch, choose_rows
from recbole_asarrec.models.training_step import Contrast, TrainingStep
from recbole_asarrec.recipe.denoise import Denoiser
from recbole_asarrec.recipe.item_init import cooccurrence_init_

OnEmbed = Callable[[Tensor], Tensor]


@contextmanager
def _building(config: Any) -> Iterator[None]:
    """RecBole's models know CE and BPR; inside, one that has BCE is built as if by BPR.

    Raises:
        ConfigError: the backbone does not know the loss, or the dataset lacks a field that it reads.
    """
    asked = config["loss_type"]
    if asked == "BCE":
        config["loss_type"] = "BPR"
    try:
        yield
    except (NotImplementedError, SystemExit) as error:  # RecBole's CPR models end the process
        raise ConfigError(f"{config['model']} cannot have loss_type {asked}; it has another one.") from error
    except KeyError as error:
        raise ConfigError(
            f"{config['model']} reads the field {error}, which is not loaded; see the keys selected_features "
            "and load_col."
        ) from error
    finally:
        config["loss_type"] = asked


class AsarRec(nn.Module):
    """Mixin for a RecBole sequential recommender: ``class AsarSASRec(AsarRec, SASRec)``.

    Adds two terms to the recommendation loss. InfoNCE pulls the two views of a user together; its gradient
    is reversed on its way into the augmenter, so one backward pass and one optimizer train both players. The
    augmenter's own loss keeps the views diverse and meaning-preserving. ``predict`` and
    ``full_sort_predict`` stay the backbone's and never touch the augmenter.

    A backbone is one small file: its :meth:`encode`, and what it can do.

    Attributes:
        backbone: the RecBole model underneath.
        causal: its output at a position depends on earlier positions alone.
        padding_invariant: padding on the right does not change its output.
        inner_product: an item's score is the inner product of its embedding with the encoded history.
    """

    backbone: type
    causal = False
    padding_invariant = False
    inner_product = False
    settings_class = AsarSettings
    loss_names = ("recommendation", "contrastive", "augmenter")

    # what RecBole's SequentialRecommender brings
    item_embedding: nn.Embedding
    loss_type: str
    n_items: int
    max_seq_length: int
    USER_ID: str
    ITEM_SEQ: str
    ITEM_SEQ_LEN: str
    POS_ITEM_ID: str

    def __init__(self, config: Any, dataset: Any) -> None:
        resolve(config, dataset)
        with _building(config):
            super().__init__(config, dataset)  # type: ignore[call-arg]
        self.loss_type = config["loss_type"]
        self.settings: AsarSettings = AsarSettings.read(config)
        self.check_backbone()
        self.columns = Columns(self.USER_ID, self.ITEM_SEQ, self.ITEM_SEQ_LEN, self.POS_ITEM_ID)
        with torch.random.fork_rng(devices=[]):  # the backbone's random stream stays its own
            size, longest = self.item_embedding.embedding_dim, self.max_seq_length
            neighbours = None
            if needs_neighbours(self.settings) and isinstance(dataset, AsarDataset):
                neighbours = torch.from_numpy(cached_neighbours(dataset))
            self.augmenter = make_augmenter(self.settings, size, self.n_items, longest, neighbours)
        if self.settings.item_init == "cooccurrence" and not config["warm_start"]:
            with torch.random.fork_rng(devices=[]):  # the same whatever the augmentation
                cooccurrence_init_(self.item_embedding, dataset)
        self.denoiser = Denoiser(self.settings.denoise_strength, self.settings.denoise_mode, self.columns)
        if self.loss_type == "BCE":
            self.negatives = UnseenNegatives.of(dataset, self.n_items)
        self.next_item = NextItemLoss.make(self.settings, self.loss_type, self.inner_product, self.backbone)
        if self.settings.byte_dropout:
            use_byte_dropout(self)
        if self.settings.fused:
            use_fused_gelu(self)

    # ---- the training step ---------------------------------------------------------------------------

    def training_step(self, interaction: Any) -> TrainingStep:
        """All losses of a batch: recommendation, and with views InfoNCE and the augmenter's own."""
        batch, kept = self.denoiser(interaction, self.item_embedding.weight)
        recommendation = self.recommendation_loss(batch)
        if not self.settings.contrasts:
            return TrainingStep((recommendation,), kept)
        histories = self.contrastive_batch(batch)
        if histories is None:
            zero = recommendation.new_zeros(())
            terms = 2 if self.settings.augmentation == "asar" else 1
            return TrainingStep((recommendation, *[zero] * terms), kept)
        if self.settings.augmentation == "s3rec":
            predicted = self.augmenter(
                histories.items, histories.length, histories.target, self._encode_view, self.item_embedding
            )
            return TrainingStep((recommendation, self.settings.contrastive_weight * predicted), kept)
        contrast = self.contrast(histories, self.draw_views(histories))
        losses = [recommendation, self.settings.contrastive_weight * contrast.infonce]
        if contrast.views.learned:
            losses.append(self.augmenter_loss(contrast))
        return TrainingStep(tuple(losses), kept, contrast)

    def draw_views(self, histories: ContrastiveBatch) -> ViewPair:
        """Two views of each history: candidates → transition → Semi-Sinkhorn → hard matrix → view."""
        return self.augmenter(histories.items, histories.length, histories.target, self.embed_for_augmenter)

    def contrast(self, histories: ContrastiveBatch, views: ViewPair) -> Contrast:
        """InfoNCE of the two views, of each user or of each position that both views share."""
        first, second = self.encode_views(views, histories.per_position)
        users = histories.users
        if histories.per_position:
            row, one, two = aligned_positions(*views.views, histories.items.size(1))  # [P]
            first, second, users = first[row, one], second[row, two], users[row]
        options = self.settings
        infonce = info_nce(first, second, users, options.temperature, options.symmetric_infonce)
        quality = sequence_quality(views.matrices, histories.length, options) if views.matrices else None
        return Contrast(views, histories.length, infonce, len(users), quality)

    def augmenter_loss(self, contrast: Contrast) -> Tensor:
        """``λ_div · L_div + λ_NDCG · L_sem``; InfoNCE arrives reversed (see :meth:`encode_views`)."""
        options, matrices = self.settings, contrast.views.matrices
        assert matrices is not None and contrast.quality is not None
        margin, ratio = options.diversity_margin, options.diversity_ratio
        with torch.autocast(contrast.length.device.type, enabled=False):
            diversity = diversity_loss(*matrices, contrast.length, margin, ratio)
            semantic = semantic_loss(contrast.quality)
        return options.diversity_weight * diversity + options.semantic_weight * semantic

    # ---- RecBole's interface -------------------------------------------------------------------------

    def calculate_loss(self, interaction: Any) -> Tensor | tuple[Tensor, ...]:
        """Return ``(recommendation, contrastive[, augmenter])``, or the recommendation loss alone."""
        losses = self.training_step(interaction).losses
        return losses if len(losses) > 1 else losses[0]

    # ---- the batch -----------------------------------------------------------------------------------

    def recommendation_loss(self, batch: Any) -> Tensor:
        """The next-item loss of rows, or of sequences at every position."""
        items, length, users = batch[self.ITEM_SEQ], batch[self.ITEM_SEQ_LEN], batch[self.USER_ID]
        if TARGETS in batch:
            real = batch[TARGETS] > 0  # [B, n], P of them
            targets, users = batch[TARGETS][real], users[:, None].expand_as(real)[real]  # [P]
            encoded = self.encode(items, length, every_position=True)[real]  # [P, d]
        elif self.next_item.replaces_backbone:
            real, targets = slice(None), batch[self.POS_ITEM_ID]
            encoded = self.encode(items, length)
        else:
            return super().calculate_loss(batch)  # type: ignore[misc]
        return self.next_item(
            encoded,
            self.item_embedding,
            targets,
            history=lambda: every_prefix(items)[real] if TARGETS in batch else items,
            negatives=lambda count: self.negatives(users, count),
        )

    def contrastive_batch(self, batch: Any) -> ContrastiveBatch | None:
        """The histories to make views of; nothing if this batch is not contrasted."""
        rows = choose_rows(batch, self.columns, self.settings)  # [R]
        return ContrastiveBatch.take(batch, rows, self.columns, self.settings) if len(rows) else None

    # ---- the backbone --------------------------------------------------------------------------------

    def encode(
        self, items: Tensor, length: Tensor, *, every_position: bool = False, on_embed: OnEmbed | None = None
    ) -> Tensor:
        """Encode histories, ``[B, n], [B] → [B, d]``, or at every position, ``[B, n, d]``.

        Args:
            items: item ids, 0 for padding on the right.
            length: how many there are.
            every_position: encode every prefix (causal backbones).
            on_embed: applied to the item embeddings ``[B, n, d]`` right after their lookup.
        """
        raise NotImplementedError

    def check_backbone(self) -> None:
        """Raise a ConfigError if the backbone cannot be augmented."""

    def backbone_positions(self, length: Tensor, n: int) -> Tensor:
        """The positions the backbone gives to the items of histories of ``length`` ``[R]``, ``[R, n]``."""
        return torch.arange(n, device=length.device).expand(len(length), n)

    def encode_views(self, pair: ViewPair, every_position: bool = False) -> tuple[Tensor, ...]:
        """Run the backbone once over both views: ``2 × [R, n] → 2 × [R, d]`` or ``2 × [R, n, d]``.

        The augmenter sees InfoNCE reversed and unweighted, as the paper's L_info, whatever λ is.
        """
        width = (
            max(view.items.size(1) for view in pair.views) if self.padding_invariant else self.max_seq_length
        )
        items = torch.cat([F.pad(view.items, (0, width - view.items.size(1))) for view in pair.views])
        length = torch.cat([view.length for view in pair.views])
        on_embed: OnEmbed | None = None
        if pair.matrices is not None and pair.embedded is not None:
            both = View(*(torch.cat(parts) for parts in zip(*pair.views)))
            soft = torch.cat([matrix.soft for matrix in pair.matrices])  # [2R, N, N]
            embedded = pair.embedded.repeat(2, 1, 1)  # [2R, N, d]
            scale = -self.settings.gradient_reversal / self.settings.contrastive_weight

            def on_embed(output: Tensor) -> Tensor:
                return carry_gradient(output, soft, embedded, both, scale)

        return self.encode(items, length, every_position=every_position, on_embed=on_embed).chunk(2)

    def _encode_view(self, view: View) -> Tensor:
        """Run the backbone over one view, ``[R, n] → [R, d]``."""
        width = view.items.size(1) if self.padding_invariant else self.max_seq_length
        return self.encode(F.pad(view.items, (0, width - view.items.size(1))), view.length)

    def embed_for_augmenter(self, ids: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Detached embeddings of ids ``[R, N]`` with positions, if asked for, and without, ``[R, N, d]``.

        Positions are the backbone's; the candidates after the first n have none.
        """
        plain = self.item_embedding(ids).detach().float()
        table = getattr(self, "position_embedding", None)
        if not self.settings.encode_position or table is None:
            return plain, plain
        position = self.backbone_positions((ids[:, :n] != 0).sum(1), n)
        history = plain[:, :n] + table(position).detach().float()
        return torch.cat([history, plain[:, n:]], dim=1), plain

    # ---- configuration -------------------------------------------------------------------------------

    @classmethod
    def best_training(cls, config: Mapping[str, Any]) -> str:
        """What ``training: auto`` stands for: all positions at once wherever that is possible."""
        return "prefix" if cls._all_positions_obstacle(config) else "all_positions"

    @classmethod
    def check_conflicts(cls, config: Mapping[str, Any]) -> None:
        """Refuse keys that are valid by themselves and wrong together, or wrong for this backbone."""
        if config["training"] == "all_positions" and (reason := cls._all_positions_obstacle(config)):
            raise ConfigError(f"{reason}; use training: prefix.")

    @classmethod
    def _all_positions_obstacle(cls, config: Mapping[str, Any]) -> str | None:
        """Why all positions of a sequence cannot be trained at once; None if they can."""
        if not cls.causal:
            return f"{cls.backbone.__name__} is not causal, so it cannot train all_positions of a sequence"
        if not cls.inner_product:
            return f"{cls.backbone.__name__} has scores of its own, which all_positions would not use"
        if config.get("transform"):
            return "training: all_positions cannot use RecBole's transform"
        if config["batching"] != "bucketed":
            return "training: all_positions needs batching: bucketed"
        if config.get("benchmark_filename") is not None:
            return "training: all_positions cannot use benchmark_filename's own rows"
        return None
