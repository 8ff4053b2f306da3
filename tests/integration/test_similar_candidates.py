"""Candidates that are said to be similar must be neighbours of the history, and must be used."""

import torch
from helpers import SMALL, build

from benchmarks.similar_candidates import SimilarCandidates
from recbole_asarrec import AsarDataset, AsarTrainer, compat

PAPER = {key: value for key, value in SMALL.items() if key not in ("training", "train_batch_size")} | {
    "recipe": "paper",
    "drop_repeating_users": False,
}


def test_candidates_are_unseen_neighbours_and_prefer_their_neighbour_s_position(toy):
    compat.register_model(SimilarCandidates, AsarDataset, AsarTrainer)
    _, data, model = build("SimilarCandidates", small=PAPER, augmentation="random_matrix")
    views, histories = model.augmenter, model.contrastive_batch(next(iter(data[0])))
    torch.manual_seed(0)
    drawn = views.draw_candidates(histories.items, histories.length, histories.target)
    n, similar = histories.items.size(1), 0
    for row, length in enumerate(histories.length.tolist()):
        history = histories.items[row, :length].tolist()
        candidates = [one for one in drawn[row].tolist() if one]
        assert len({*candidates}) == len(candidates)
        assert not {*candidates} & {*history, int(histories.target[row])}
        for slot, candidate in enumerate(drawn[row].tolist()):
            (at,) = views.matrices.preference[row, n + slot].nonzero().flatten().tolist()
            assert at < length
            similar += candidate in views.neighbours[history[at]].tolist()
    assert similar > 0.9 * drawn.numel(), "most candidates are neighbours of the item they stand for"
    assert views.matrices.preference[:, :n].abs().max() == 0
    contrast = model.contrast(histories, model.draw_views(histories))
    assert contrast.infonce.isfinite() and contrast.views.matrices is not None


def test_learned_matrices_learn_and_random_ones_do_not(toy):
    compat.register_model(SimilarCandidates, AsarDataset, AsarTrainer)
    for augmentation, learns in (("asar", True), ("random_matrix", False)):
        _, data, model = build("SimilarCandidates", small=PAPER, augmentation=augmentation)
        sum(model.training_step(next(iter(data[0]))).losses).backward()
        gradient = model.augmenter.matrices.encoder.project.weight.grad
        assert (gradient is not None and bool(gradient.abs().max() > 0)) == learns
