"""Rotary positions."""

import math

import torch
from torch import Tensor

from model.config import Config
from model.device import DEVICE

# Cosines and sines, each [positions, rope_dims / 2].
RopeTable = tuple[Tensor, Tensor]


def frequencies(config: Config, long_range: bool) -> Tensor:
    """Return the angle a position adds, [rope_dims / 2]; compressed layers use YaRN."""
    dims = config.rope_dims
    theta = config.compress_rope_theta if long_range else config.rope_theta
    f = 1.0 / (theta ** (torch.arange(0, dims, 2, dtype=torch.float32) / dims))
    if not long_range:
        return f

    def dimension_of(rotations: float) -> float:
        turns = config.yarn_original / (rotations * 2 * math.pi)
        return dims * math.log(turns) / (2 * math.log(theta))

    low = max(math.floor(dimension_of(config.yarn_beta_fast)), 0)
    high = min(math.ceil(dimension_of(config.yarn_beta_slow)), dims - 1)
    ramp = (torch.arange(dims // 2, dtype=torch.float32) - low) / max(high - low, 1e-3)
    ramp = ramp.clamp(0, 1)
    return f / config.yarn_factor * ramp + f * (1 - ramp)


def rope_table(config: Config, positions: int, long_range: bool) -> RopeTable:
    """Return the cosines and sines of the first positions."""
    angles = torch.outer(torch.arange(positions).float(), frequencies(config, long_range))
    return angles.cos().to(DEVICE), angles.sin().to(DEVICE)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the last `2 * cos.shape[-1]` values of x [..., d] in neighbouring pairs.

    cos and sin must broadcast to the leading dimensions of x.
    """
    dims = 2 * cos.shape[-1]
    still, turned = x[..., :-dims], x[..., -dims:].float().unflatten(-1, (-1, 2))
    even, odd = turned[..., 0], turned[..., 1]
    turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(-2)
    return torch.cat([still, turned.to(x.dtype)], -1)


def rotate_back(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Undo `rotate`."""
    return rotate(x, cos, -sin)
