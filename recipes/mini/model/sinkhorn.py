"""Sinkhorn normalisation of the hyper-connection matrices."""

import os

import torch
from torch import Tensor

from model.config import Config

try:
    from model import sinkhorn_triton
except ImportError:
    sinkhorn_triton = None


def sinkhorn_plain(logits: Tensor, iterations: int, eps: float) -> Tensor:
    """Turn logits [T, s, s] into matrices whose rows and columns sum to about one."""
    x = torch.softmax(logits, -1) + eps
    x = x / (x.sum(-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        x = x / (x.sum(-1, keepdim=True) + eps)
        x = x / (x.sum(-2, keepdim=True) + eps)
    return x


def sinkhorn(logits: Tensor, config: Config) -> Tensor:
    """Turn f32 logits [T, s * s] into matrices [T, s, s]; on a GPU by a fused kernel for s = 4."""
    s = config.streams
    if logits.is_cuda or os.environ.get("TRITON_INTERPRET") == "1":
        if sinkhorn_triton is None or s != sinkhorn_triton.STREAMS:
            raise RuntimeError(f"a GPU needs triton and {s} = 4 streams")
        return sinkhorn_triton.sinkhorn(logits, config.sinkhorn_iters, config.hc_eps).view(-1, s, s)
    return sinkhorn_plain(logits.view(-1, s, s), config.sinkhorn_iters, config.hc_eps)
