"""The release's number formats, as functions from floats to the nearest stored values.

E2M1 (FP4) and E4M3 (FP8) codes are scaled by powers of two, except for compressed cache rows, whose
scales are E4M3 themselves.
"""

import torch
from torch import Tensor

E2M1_MAX, E4M3_MAX = 6.0, 448.0


def power_of_two_above(x: Tensor) -> Tensor:
    """Return the least power of two that is not below each value."""
    return torch.exp2(torch.ceil(torch.log2(x)))


def round_e2m1(x: Tensor) -> Tensor:
    """Round to 0, 0.5, 1, 1.5, 2, 3, 4 or 6 with the sign of x; ties to even."""
    a = x.abs().clamp(max=E2M1_MAX)
    coarse = torch.where(a < 4, torch.round(a), torch.round(a / 2) * 2)
    rounded = torch.where(a < 2, torch.round(a * 2) / 2, coarse)
    return rounded * torch.sign(x)


def round_e4m3(x: Tensor) -> Tensor:
    """Round to E4M3, clamped to its range."""
    return x.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).to(x.dtype)


def fp4_groups(w: Tensor) -> tuple[Tensor, Tensor]:
    """Split [..., n] into [..., n/32, 32] groups; returns them with their scales [..., n/32, 1]."""
    groups = w.unflatten(-1, (-1, 32))
    largest = groups.abs().amax(-1, keepdim=True).clamp_min(E2M1_MAX * 2.0**-126)
    return groups, power_of_two_above(largest / E2M1_MAX)


def quantize_fp4(w: Tensor) -> Tensor:
    """Round weights [..., n] to E2M1 with a scale for each 32 of the last dimension."""
    groups, scale = fp4_groups(w)
    return (round_e2m1(groups / scale) * scale).flatten(-2)


def fp8_blocks(w: Tensor) -> tuple[Tensor, Tensor]:
    """Split [..., r, c] into blocks [..., r/32, 32, c/32, 32]; returns them with their scales."""
    blocks = w.unflatten(-1, (-1, 32)).unflatten(-3, (-1, 32))
    largest = blocks.abs().amax((-1, -3), keepdim=True).clamp_min(1e-4 * 2**-20)
    return blocks, power_of_two_above(largest / E4M3_MAX)


def quantize_fp8(w: Tensor) -> Tensor:
    """Round weights [..., r, c] to E4M3 with a scale for each 32 x 32 block."""
    blocks, scale = fp8_blocks(w)
    return (round_e4m3(blocks / scale) * scale).flatten(-4, -3).flatten(-2)


def fp8_row_groups(x: Tensor) -> tuple[Tensor, Tensor]:
    """Split [..., n] into [..., n/32, 32] groups, with their scales [..., n/32, 1]."""
    groups = x.unflatten(-1, (-1, 32))
    largest = groups.abs().amax(-1, keepdim=True).clamp_min(1e-4)
    return groups, power_of_two_above(largest / E4M3_MAX)


def quantize_fp8_rows(x: Tensor) -> Tensor:
    """Round rows [..., n] (window cache, Engram tables) to E4M3 with a scale for each 32."""
    groups, scale = fp8_row_groups(x)
    return (round_e4m3(groups / scale) * scale).flatten(-2)


def quantize_fp4_cache(x: Tensor) -> Tensor:
    """Round compressed cache rows [..., n] to E2M1 with an E4M3 scale for each 16."""
    groups = x.unflatten(-1, (-1, 16))
    largest = groups.abs().amax(-1, keepdim=True).clamp_min(E2M1_MAX * 2.0**-9)
    scale = (largest / E2M1_MAX).to(torch.float8_e4m3fn).to(x.dtype)
    return (round_e2m1((groups / scale).clamp(-E2M1_MAX, E2M1_MAX)) * scale).flatten(-2)


def straight_through(x: Tensor, quantized: Tensor, strength: Tensor) -> Tensor:
    """Return x moved towards its quantized value by `strength` (0 to 1), with the gradient of x."""
    return x + strength * (quantized - x).detach()
