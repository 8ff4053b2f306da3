"""The five fixed operations as index maps, the kind that AsarRec learns (paper, section 4.1).

Each is a function ``(length, width, edits) → IndexMap`` over a batch, on the device, without a loop
over users, and writes into nothing. A new operation is one function and one row of :data:`OPERATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class IndexMap(NamedTuple):
    """What a view takes from where.

    Attributes:
        source: the item of the expanded sequence for each position, −1 for none, ``[B, m]``; values from
            the history's width on are new items.
        anchor: the history position each new item goes before or replaces, −1 where there is none,
            ``[B, k]``; an informed choice of new items looks at what is there.
    """

    source: Tensor
    anchor: Tensor


def _positions(length: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Position indices and which of them are history, both ``[B, width]``."""
    position = torch.arange(width, device=length.device).expand(len(length), width)
    return position, position < length[:, None]


def _choose(length: Tensor, width: int, count: Tensor) -> Tensor:
    """``count`` different history positions of each user at random, as a mask ``[B, width]``."""
    position, real = _positions(length, width)
    order = torch.rand(position.shape, device=length.device).masked_fill(~real, 2.0).argsort(1)
    rank = torch.empty_like(order).scatter_(1, order, position)
    return rank < count[:, None]


def _no_anchor(length: Tensor) -> Tensor:
    return length.new_empty(len(length), 0)


def _random_start(room: Tensor) -> Tensor:
    """A uniform whole number from 0 to ``room``, ``[B]``."""
    return (torch.rand(len(room), device=room.device) * (room + 1)).long().minimum(room)


def crop(length: Tensor, width: int, edits: Tensor) -> IndexMap:
    """Keep a contiguous part: ``edits`` items fall off the two ends; one always stays."""
    gone = edits.minimum(length - 1)
    start = _random_start(gone)[:, None]
    position, _ = _positions(length, width)
    inside = (position >= start) & (position < start + (length - gone)[:, None])
    return IndexMap(torch.where(inside, position, -1), _no_anchor(length))


def mask(length: Tensor, width: int, edits: Tensor) -> IndexMap:
    """Drop ``edits`` items at random; one always stays."""
    position, real = _positions(length, width)
    gone = _choose(length, width, edits.minimum(length - 1))
    return IndexMap(torch.where(real & ~gone, position, -1), _no_anchor(length))


def reorder(length: Tensor, width: int, edits: Tensor) -> IndexMap:
    """Shuffle ``edits + 1`` neighbouring items, the fewest that ``edits`` displaced ones can be among."""
    span = (edits + 1).minimum(length)
    start = _random_start(length - span)[:, None]
    position, real = _positions(length, width)
    inside = (position >= start) & (position < start + span[:, None])
    # outside, a position sorts by itself; inside, by a random number within the window
    shuffled = start + torch.rand(position.shape, device=length.device) * span[:, None]
    key = torch.where(inside, shuffled.to(torch.float64), position.to(torch.float64))
    return IndexMap(torch.where(real, key.argsort(1), -1), _no_anchor(length))


def insert(length: Tensor, width: int, edits: Tensor) -> IndexMap:
    """Put ``edits`` new items before randomly chosen ones; the newest item stays the newest."""
    most = int(edits.max())
    slot = torch.arange(most, device=length.device).expand(len(length), most)
    anchor = (torch.rand(slot.shape, device=length.device) * length[:, None]).long()
    anchor = torch.where(slot < edits[:, None], anchor, -1)
    position, real = _positions(length, width)
    never = float(2 * (width + most))
    old = position.double().masked_fill(~real, never)
    new = (anchor - 0.5).double().masked_fill(anchor < 0, never)
    key, source = torch.cat([old, new], dim=1).sort(dim=1, stable=True)  # values from width on are new
    return IndexMap(torch.where(key < never, source, -1), anchor)


def substitute(length: Tensor, width: int, edits: Tensor) -> IndexMap:
    """Replace ``edits`` items at random by new ones; one always stays."""
    count = edits.minimum(length - 1)
    position, real = _positions(length, width)
    gone = _choose(length, width, count)
    source = torch.where(gone, width + gone.long().cumsum(1) - 1, position)
    most = int(count.max())
    anchor = (~gone).long().argsort(dim=1, stable=True)[:, :most]  # chosen positions first, in order
    slot = torch.arange(most, device=length.device)
    return IndexMap(torch.where(real, source, -1), torch.where(slot < count[:, None], anchor, -1))


def identity(length: Tensor, width: int, edits: Tensor) -> IndexMap:
    """Nothing changes; two encodings still differ by dropout (DuoRec's unsupervised view)."""
    position, real = _positions(length, width)
    return IndexMap(torch.where(real, position, -1), _no_anchor(length))


Operation = Callable[[Tensor, int, Tensor], IndexMap]
OPERATIONS: dict[str, Operation] = {
    "crop": crop,
    "mask": mask,
    "reorder": reorder,
    "insert": insert,
    "substitute": substitute,
    "coserec_insert": insert,  # the same maps; the new items are chosen by similarity
    "coserec_substitute": substitute,
    "dropout": identity,
}
