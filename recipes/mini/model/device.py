"""Where tensors are, and whether functions are compiled (not with NOCOMPILE=1, nor on a CPU)."""

import os
from collections.abc import Callable

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
COMPILE = DEVICE == "cuda" and os.environ.get("NOCOMPILE") != "1"
WORK_DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32

if COMPILE:
    torch._dynamo.config.automatic_dynamic_shapes = False
    torch._dynamo.config.cache_size_limit = 64


def compiled(function: Callable) -> Callable:
    """Compile a function for fixed shapes where this process compiles at all."""
    return torch.compile(function, dynamic=False) if COMPILE else function
