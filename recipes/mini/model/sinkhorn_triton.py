"""Fused Sinkhorn for 4 x 4 matrices, forward and backward, one program for 64 matrices.

The forward pass keeps the divisor of every step, [2 * iterations - 1, T, 4], from which the
backward pass walks the steps back.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

STREAMS = 4
BLOCK = 64


@triton.jit
def _forward_kernel(
    logits_ptr,
    out_ptr,
    divisors_ptr,
    count,
    EPS: tl.constexpr,
    ITERS: tl.constexpr,
    B: tl.constexpr,
):
    t = tl.program_id(0) * B + tl.arange(0, B)
    inside = t < count
    i = tl.arange(0, 4)
    at = t[:, None, None] * 16 + i[None, :, None] * 4 + i[None, None, :]
    mask = inside[:, None, None]
    x = tl.load(logits_ptr + at, mask=mask, other=0.0)
    x = tl.exp(x - tl.max(x, axis=2)[:, :, None])
    x = x / tl.sum(x, axis=2)[:, :, None] + EPS
    at4 = t[:, None] * 4 + i[None, :]
    mask4 = inside[:, None]
    d = tl.sum(x, axis=1) + EPS
    tl.store(divisors_ptr + at4, d, mask=mask4)
    x = x / d[:, None, :]
    for k in range(ITERS - 1):
        d = tl.sum(x, axis=2) + EPS
        tl.store(divisors_ptr + (2 * k + 1) * count * 4 + at4, d, mask=mask4)
        x = x / d[:, :, None]
        d = tl.sum(x, axis=1) + EPS
        tl.store(divisors_ptr + (2 * k + 2) * count * 4 + at4, d, mask=mask4)
        x = x / d[:, None, :]
    tl.store(out_ptr + at, x, mask=mask)


@triton.jit
def _backward_kernel(
    out_ptr,
    divisors_ptr,
    grad_ptr,
    result_ptr,
    count,
    EPS: tl.constexpr,
    ITERS: tl.constexpr,
    B: tl.constexpr,
):
    t = tl.program_id(0) * B + tl.arange(0, B)
    inside = t < count
    i = tl.arange(0, 4)
    at = t[:, None, None] * 16 + i[None, :, None] * 4 + i[None, None, :]
    mask = inside[:, None, None]
    at4 = t[:, None] * 4 + i[None, :]
    mask4 = inside[:, None]
    y = tl.load(out_ptr + at, mask=mask, other=0.25)
    g = tl.load(grad_ptr + at, mask=mask, other=0.0)
    for back in range(ITERS - 1):
        k = ITERS - 2 - back
        d = tl.load(divisors_ptr + (2 * k + 2) * count * 4 + at4, mask=mask4, other=1.0)
        g = (g - tl.sum(g * y, axis=1)[:, None, :]) / d[:, None, :]
        y = y * d[:, None, :]
        d = tl.load(divisors_ptr + (2 * k + 1) * count * 4 + at4, mask=mask4, other=1.0)
        g = (g - tl.sum(g * y, axis=2)[:, :, None]) / d[:, :, None]
        y = y * d[:, :, None]
    d = tl.load(divisors_ptr + at4, mask=mask4, other=1.0)
    g = (g - tl.sum(g * y, axis=1)[:, None, :]) / d[:, None, :]
    y = y * d[:, None, :]
    p = y - EPS
    g = p * (g - tl.sum(g * p, axis=2)[:, :, None])
    tl.store(result_ptr + at, g, mask=mask)


@torch.library.custom_op("mini::sinkhorn_forward", mutates_args=())
def _forward(logits: Tensor, iterations: int, eps: float) -> list[Tensor]:
    """Return the matrices [T, 16] and the divisors [2 * iterations - 1, T, 4] of logits [T, 16]."""
    count = logits.shape[0]
    out = torch.empty_like(logits)
    divisors = torch.empty(2 * iterations - 1, count, 4, device=logits.device, dtype=torch.float32)
    grid = (triton.cdiv(count, BLOCK),)
    _forward_kernel[grid](logits, out, divisors, count, eps, iterations, BLOCK, num_warps=2)
    return [out, divisors]


@_forward.register_fake
def _(logits: Tensor, iterations: int, eps: float) -> list[Tensor]:
    return [torch.empty_like(logits), logits.new_empty(2 * iterations - 1, logits.shape[0], 4)]


@torch.library.custom_op("mini::sinkhorn_backward", mutates_args=())
def _backward(out: Tensor, divisors: Tensor, grad: Tensor, eps: float) -> Tensor:
    """Return the gradient of the logits [T, 16]."""
    count, iterations = out.shape[0], (divisors.shape[0] + 1) // 2
    result = torch.empty_like(out)
    grid = (triton.cdiv(count, BLOCK),)
    arguments = (out, divisors, grad.contiguous(), result, count, eps, iterations, BLOCK)
    _backward_kernel[grid](*arguments, num_warps=2)
    return result


@_backward.register_fake
def _(out: Tensor, divisors: Tensor, grad: Tensor, eps: float) -> Tensor:
    return torch.empty_like(out)


def _setup_context(ctx: torch.autograd.function.FunctionCtx, inputs: tuple, output: list) -> None:
    ctx.save_for_backward(*output)
    ctx.eps = inputs[2]


def _gradient(ctx: torch.autograd.function.FunctionCtx, grads: list[Tensor]) -> tuple:
    out, divisors = ctx.saved_tensors
    return _backward(out, divisors, grads[0], ctx.eps), None, None


_forward.register_autograd(_gradient, setup_context=_setup_context)


def sinkhorn(logits: Tensor, iterations: int, eps: float) -> Tensor:
    """Turn f32 logits [T, 16] into matrices [T, 16]."""
    return _forward(logits.contiguous(), iterations, eps)[0]
