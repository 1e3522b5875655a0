"""Attention over a window of rows and all compressed rows before a position."""

from functools import cache

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from model.config import Config
from model.device import DEVICE, compiled

_flex_attention = compiled(flex_attention)


@cache
def _block_mask(ratio: int, length: int, keys: int, window: int) -> BlockMask:
    """Return the mask of S queries over S window rows, then compressed rows of `ratio` tokens."""

    def in_window(_batch: Tensor, _head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (i >= j) & (i - j < window)

    def visible(batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        complete = (j - length) < ((i + 1) // ratio)
        return torch.where(j < length, in_window(batch, head, i, j), complete)

    return create_block_mask(
        visible if ratio else in_window, None, None, length, keys, device=DEVICE
    )


def _plain(q: Tensor, k: Tensor, ratio: int, config: Config) -> tuple[Tensor, Tensor]:
    """Attend in f32 with a full matrix of scores."""
    length, keys = q.shape[2], k.shape[2]
    i = torch.arange(length)[:, None]
    j = torch.arange(keys)[None]
    mask = (i >= j) & (i - j < config.window) & (j < length)
    if ratio:
        mask = mask | ((j >= length) & ((j - length) < ((i + 1) // ratio)))
    scores = (q.float() @ k.float().transpose(-1, -2)) * config.head_dim**-0.5
    scores = scores.masked_fill(~mask, -torch.inf)
    return (scores.softmax(-1) @ k.float()).to(q.dtype), torch.logsumexp(scores, -1)


def attention(q: Tensor, k: Tensor, ratio: int, config: Config) -> tuple[Tensor, Tensor]:
    """Attend with queries q [B, H, S, d] to k [B, 1, S + compressed, d], keys and values in one.

    Returns outputs [B, H, S, d] and the natural logarithms of the score sums [B, H, S].
    """
    if not q.is_cuda:
        return _plain(q, k, ratio, config)
    mask = _block_mask(ratio, q.shape[2], k.shape[2], config.window)
    scale = config.head_dim**-0.5
    return _flex_attention(q, k, k, block_mask=mask, scale=scale, enable_gqa=True, return_lse=True)
