"""Views of a sequence are contrasted at every position: the term of all prefixes from two passes."""

import pytest
import torch
import torch.nn.functional as F
from helpers import SMALL, build

from recbole_asarrec.augment import View, aligned_positions
from recbole_asarrec.data import CONTRASTIVE_ROW
from recbole_asarrec.models import contrastive_batch
from recbole_asarrec.models.contrastive_batch import choose_rows

WINDOWS = {**SMALL, "training": "all_positions"}


def view(*sources):
    """A view that shows the items of the history at these places, and a source from 10 on as a new item."""
    width = max(map(len, sources))
    source = torch.tensor([[*one, *[-1] * (width - len(one))] for one in sources])
    return View(source + 1, (source >= 0).sum(1), source, source)


def test_views_meet_behind_what_both_have_and_at_their_ends():
    first = view([0, 1, 2, 3], [2, 0], [10])
    second = view([0, 2, 10], [0, 1, 2], [10])
    found = set(zip(*(index.tolist() for index in aligned_positions(first, second, size=4))))
    assert found == {
        (0, 0, 0), (0, 2, 1), (0, 3, 2),  # items 0 and 2, and the ends
        (1, 0, 2), (1, 1, 0), (1, 1, 2),  # moved items meet where they went
        (2, 0, 0),  # nothing in common but the end
    }  # fmt: skip


@pytest.mark.parametrize("augmentation", ["asar", "insert", "crop", "dropout"])
def test_every_place_is_a_prefix_encoded_by_itself(toy, augmentation):
    """The term against loops: each compared place is the view up to there, encoded alone."""
    _, data, model = build(
        small=WINDOWS,
        augmentation=augmentation,
        contrast_on="prefix",
        contrast_ratio=1.0,
        denoise_strength=0.0,
    )
    model.eval()
    batch = next(iter(data[0]))
    history = batch[model.ITEM_SEQ]
    torch.manual_seed(3)
    _, found, *_ = model.calculate_loss(batch)
    torch.manual_seed(3)
    pairs = model.contrastive_batch(batch)
    first, second = model.draw_views(pairs).views

    def prefix(one, row, place):
        items = one.items[row : row + 1, : place + 1]
        return F.normalize(model.encode(items, torch.tensor([place + 1]))[0], dim=-1)

    users, ones, twos = [], [], []
    for row in range(len(history)):
        ends = (int(first.length[row]) - 1, int(second.length[row]) - 1)
        for one in range(int(first.length[row])):
            for two in range(int(second.length[row])):
                source = int(first.source[row, one])
                shared = source < history.size(1) and source == int(second.source[row, two])
                if shared or (one, two) == ends:
                    users.append(int(batch[model.USER_ID][row]))
                    ones.append(prefix(first, row, one))
                    twos.append(prefix(second, row, two))
    terms = []
    for number, (user, one) in enumerate(zip(users, ones)):
        others = enumerate(zip(users, twos))
        rivals = [two for other, (owner, two) in others if owner != user or other == number]
        scores = torch.stack([one @ two for two in rivals]) / model.settings.temperature
        terms.append(scores.logsumexp(0) - one @ twos[number] / model.settings.temperature)
    expected = model.settings.contrastive_weight * torch.stack(terms).mean()
    assert torch.allclose(found, expected, atol=1e-5)


def rows_of(model, batch):
    return choose_rows(batch, model.columns, model.settings)


def test_auto_is_every_second_batch_of_sequences_and_one_row_a_user(toy):
    """With a row for each prefix, all of them would cost three times as much."""
    _, data, model = build(small=WINDOWS)
    batch = next(iter(data[0]))
    torch.manual_seed(0)
    drawn = [rows_of(model, batch) for _ in range(200)]
    assert {len(rows) for rows in drawn} == {0, len(batch)}
    assert 70 < sum(len(rows) > 0 for rows in drawn) < 130

    _, data, model = build(small=WINDOWS, training="prefix")
    batch = next(iter(data[0]))
    assert torch.equal(rows_of(model, batch), batch[CONTRASTIVE_ROW].nonzero().squeeze(1))


def test_long_histories_are_contrasted_in_part(toy, monkeypatch):
    """InfoNCE costs the square of its pairs: random rows up to a number of positions, never none."""
    _, data, model = build(small=WINDOWS, contrast_ratio=1.0)
    batch = next(iter(data[0]))
    length = batch[model.ITEM_SEQ_LEN]
    assert len(rows_of(model, batch)) == len(batch)
    monkeypatch.setattr(contrastive_batch, "MAX_POSITIONS", int(length.sum()) // 2)
    chosen = [rows_of(model, batch) for _ in range(50)]
    for rows in chosen:
        assert 0 < length[rows].sum() <= length.sum() // 2 and len(rows.unique()) == len(rows)
    assert len(torch.cat(chosen).unique()) == len(batch), "some rows are never contrasted"
    monkeypatch.setattr(contrastive_batch, "MAX_POSITIONS", 0)
    assert len(rows_of(model, batch)) == 1
