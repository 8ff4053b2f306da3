"""How far the transition encoder can lead a matrix away from a random one."""

import pytest
import torch
from torch import nn

from recbole_asarrec.augment.augmenter import Augmenter
from recbole_asarrec.config.settings import AsarSettings

N, K, SIZE = 5, 3, 8


class Returns(nn.Module):
    """An encoder that has this to say whatever it sees."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, expanded):
        return self.logits


def first_probability(factor, **keys):
    """Transition probabilities of one history without noise or bias, and the logits behind them."""
    torch.manual_seed(0)
    settings = AsarSettings(num_candidates=K, null_item=False, gumbel_scale=0.0, identity_bias=0.0, **keys)
    augmenter = Augmenter(settings, SIZE)
    logits = factor * torch.randn(2, 1, N + K, N + K, requires_grad=True)
    augmenter.encoder = Returns(logits)
    seen = []
    probability = augmenter._probability

    def recorded(*words):
        seen.append(probability(*words))
        return seen[-1]

    augmenter._probability = recorded
    augmenter(torch.zeros(1, N + K, SIZE), torch.ones(1, N + K, dtype=torch.bool), torch.tensor([N]))
    return seen[0], logits


@pytest.mark.parametrize("limit", [0.5, 1.0, 3.0])
def test_odds_stay_within_twice_the_limit(limit):
    """However large the encoder's output is: e^limit against e^−limit."""
    probability, _ = first_probability(1e6, logit_limit=limit)
    odds = (probability.amax(2) / probability.amin(2)).log()
    assert odds.max().item() == pytest.approx(2 * limit, rel=1e-4)


def test_without_a_limit_a_row_can_be_certain():
    probability, _ = first_probability(1e3, logit_limit=0.0)
    assert probability.amax(2).min() > 0.99


@pytest.mark.parametrize("limit", [0.0, 1.0])
def test_an_encoder_that_diverges_gives_no_nan(limit):
    probability, _ = first_probability(1e30, logit_limit=limit)
    assert probability.isfinite().all()


def test_small_logits_are_what_they_are():
    """tanh(x) = x − x³/3 + …: what is far below the limit is learned as without one."""
    limited, logits = first_probability(1e-2, logit_limit=1.0)
    assert torch.allclose(limited, logits.flatten(0, 1).softmax(-1), atol=1e-6)


def test_the_gradient_is_that_of_the_tanh():
    probability, logits = first_probability(2.0, logit_limit=1.5)
    weight = torch.randn_like(probability)
    (found,) = torch.autograd.grad((probability * weight).sum(), logits, retain_graph=True)
    squashed = (1.5 * torch.tanh(logits / 1.5)).detach().requires_grad_()
    (inner,) = torch.autograd.grad((squashed.flatten(0, 1).softmax(-1) * weight).sum(), squashed)
    expected = inner * (1 - torch.tanh(logits / 1.5) ** 2)
    assert torch.allclose(found, expected, atol=1e-6)
