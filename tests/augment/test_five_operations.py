"""Each of the paper's five operations can be learned: gradient descent on the matrix reaches it."""

import pytest
import torch

from recbole_asarrec.augment import Augmenter, mutual_argmax, semi_sinkhorn
from recbole_asarrec.config.settings import AsarSettings
from recbole_asarrec.training.monitor import count_edits

N, K, SIZE = 6, 2, 16
NULL = N + K
# for each position of the view the item of s* it should take: 0 … 5 the history, 6 and 7 new, 8 none
OPERATIONS = {
    "crop": [NULL, NULL, 2, 3, 4, NULL],
    "mask": [0, NULL, 2, 3, NULL, 5],
    "reorder": [0, 2, 3, 1, 4, 5],
    "insert": [0, 1, 6, 2, 3, 4],
    "substitute": [0, 1, 7, 3, 4, 6],
}
COUNTS = {  # kept, moved, substituted, inserted, masked, cropped
    "crop": (3, 0, 0, 0, 0, 3),
    "mask": (4, 0, 0, 0, 2, 0),
    "reorder": (3, 3, 0, 0, 0, 0),
    "insert": (2, 3, 0, 1, 0, 0),
    "substitute": (4, 0, 2, 0, 0, 0),
}


def learn(wanted, **keys):
    """Train an augmenter until its soft matrix puts the wanted items where they should go."""
    torch.manual_seed(0)
    settings = AsarSettings(
        num_candidates=K,
        augmenter_hidden_size=SIZE,
        gumbel_scale=0.0,
        logit_limit=0.0,
        edit_cap=False,
        **keys,
    )
    augmenter = Augmenter(settings, SIZE)
    size = NULL + settings.null_item
    expanded = torch.randn(1, size, SIZE)
    valid, length = torch.ones(1, size, dtype=torch.bool), torch.tensor([N])
    optimizer = torch.optim.Adam(augmenter.parameters(), 0.02)
    for _ in range(300):
        first, _ = augmenter(expanded, valid, length)
        entries = first.soft[0, torch.tensor(wanted), torch.arange(N)]  # [n]
        optimizer.zero_grad()
        (-(entries + 1e-6).log().sum()).backward()
        optimizer.step()
    return augmenter(expanded, valid, length)[0].source[0].tolist()


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_is_reached_by_gradient_descent(name):
    wanted = OPERATIONS[name]
    assert learn(wanted) == [-1 if item == NULL else item for item in wanted]


def test_without_a_null_item_no_position_stays_empty():
    """Why it is there: mutual argmax continues until every position has an item."""
    soft = torch.rand(40, NULL, NULL) + 0.01
    valid = torch.ones(40, NULL, dtype=torch.bool)
    assert (mutual_argmax(semi_sinkhorn(soft, valid, threshold=0.0)) >= 0).all()


@pytest.mark.parametrize("name", OPERATIONS)
def test_edits_are_counted_by_kind(name):
    source = torch.tensor([[-1 if item == NULL else item for item in OPERATIONS[name]]])
    found = count_edits(source, torch.tensor([N]))
    kinds = ("kept", "moved", "substituted", "inserted", "masked", "cropped")
    assert tuple(int(found[kind]) for kind in kinds) == COUNTS[name]
