"""Every parameter: its shape, its format in a release, its start values and its training."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from model.config import Config
from model.device import WORK_DTYPE
from model.engram import table_rows
from model.quantize import quantize_fp4, quantize_fp8, quantize_fp8_rows

Storage = Literal["fp4", "fp8", "fp8_rows", "bf16", "f32"]
Tensors = dict[str, Tensor]
Initializer = Callable[[tuple[int, ...], torch.Generator], Tensor]

QUANTIZERS = {"fp4": quantize_fp4, "fp8": quantize_fp8, "fp8_rows": quantize_fp8_rows}
ADAM_RATE = 2e-3


@dataclass(frozen=True)
class Spec:
    """One parameter; without a `rate` for AdamW it is trained by Muon."""

    shape: tuple[int, ...]
    storage: Storage
    start: Initializer
    rate: float | None = None


def ones(shape: tuple[int, ...], _generator: torch.Generator) -> Tensor:
    """Return ones."""
    return torch.ones(shape)


def zeros(shape: tuple[int, ...], _generator: torch.Generator) -> Tensor:
    """Return zeros."""
    return torch.zeros(shape)


def normal(deviation: float) -> Initializer:
    """Return an initializer that draws from a normal distribution."""
    return lambda shape, generator: torch.randn(shape, generator=generator) * deviation


def fan_in(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw from a normal distribution with variance one over the last dimension."""
    return torch.randn(shape, generator=generator) * shape[-1] ** -0.5


def constant(value: float) -> Initializer:
    """Return an initializer that fills with a value."""
    return lambda shape, _generator: torch.full(shape, value)


def hyper_connection_base(config: Config, part: int) -> Initializer:
    """Let part 0 (attention) or 1 (FFN) of each layer read one stream, and keep streams apart."""

    def start(shape: tuple[int, ...], _generator: torch.Generator) -> Tensor:
        base = torch.zeros(shape)
        streams = config.streams
        for layer in range(shape[0]):
            base[layer, :streams] = -1.5
            base[layer, (2 * layer + part) % streams] = 1.0
            base[layer, 2 * streams :] = (torch.eye(streams) * 4).flatten()
        return base

    return start


def engram_projection(config: Config) -> Initializer:
    """Start the keys by fan-in and the values at zero."""

    def start(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        weight = fan_in(shape, generator)
        weight[:, config.streams * config.hidden :] = 0
        return weight

    return start


def block_specs(config: Config, count: int, experts: int) -> dict[str, Spec]:
    """Return the parameters of `count` blocks of attention and experts, stacked."""
    hidden, heads, head_dim, inner = config.hidden, config.heads, config.head_dim, config.inner
    low_rank = config.o_groups * config.o_rank
    group = heads * head_dim // config.o_groups

    def norm(size: int) -> Spec:
        return Spec((count, size), "bf16", ones, ADAM_RATE)

    def fp8(rows: int, columns: int, start: Initializer = fan_in) -> Spec:
        return Spec((count, rows, columns), "fp8", start)

    def fp4(rows: int, columns: int, start: Initializer = fan_in) -> Spec:
        return Spec((count, experts, rows, columns), "fp4", start)

    def mixer(part: int) -> tuple[Spec, Spec, Spec]:
        mixes = config.mixes
        fn = Spec((count, mixes, config.streams * hidden), "f32", normal(0.01), 2e-4)
        base = Spec((count, mixes), "f32", hyper_connection_base(config, part), ADAM_RATE)
        return fn, base, Spec((count, 3), "f32", constant(0.2), ADAM_RATE)

    hc_attn_fn, hc_attn_base, hc_attn_scale = mixer(0)
    hc_ffn_fn, hc_ffn_base, hc_ffn_scale = mixer(1)
    return {
        "wq_a": fp8(config.q_rank, hidden),
        "wkv": fp8(head_dim, hidden),
        "wq_b": fp8(heads * head_dim, config.q_rank),
        "wo_a": fp8(low_rank, group),
        "wo_b": fp8(hidden, low_rank, zeros),
        "q_norm": norm(config.q_rank),
        "kv_norm": norm(head_dim),
        "attn_sink": Spec((count, heads), "f32", zeros, ADAM_RATE),
        "attn_norm": norm(hidden),
        "ffn_norm": norm(hidden),
        "hc_attn_fn": hc_attn_fn,
        "hc_attn_base": hc_attn_base,
        "hc_attn_scale": hc_attn_scale,
        "hc_ffn_fn": hc_ffn_fn,
        "hc_ffn_base": hc_ffn_base,
        "hc_ffn_scale": hc_ffn_scale,
        "gate": Spec((count, experts, hidden), "bf16", normal(0.02), 3e-4),
        "experts_w1": fp4(inner, hidden),
        "experts_w3": fp4(inner, hidden),
        "experts_w2": fp4(hidden, inner, zeros),
        "shared_w1": fp8(inner, hidden),
        "shared_w3": fp8(inner, hidden),
        "shared_w2": fp8(hidden, inner, zeros),
    }


def main_specs(config: Config) -> dict[str, Spec]:
    """Return the parameters of the backbone and its Engram tables."""
    hidden, vocab, head_dim = config.hidden, config.vocab, config.head_dim
    sources = len(config.kv_sources)
    gated = sum(config.ratios[layer] > 1 for layer in config.kv_sources)
    engrams = len(config.engram_layers)
    engram_in = config.engram_columns * config.engram_width
    engram_out = (config.streams + 1) * hidden
    per_stream = Spec((engrams, config.streams, hidden), "f32", ones, ADAM_RATE)
    specs = block_specs(config, config.layers, config.experts)
    specs |= {
        "embed": Spec((vocab, hidden), "bf16", normal(0.5), 2e-3),
        "head": Spec((vocab, hidden), "bf16", normal(0.02), 1.5e-3),
        "norm": Spec((hidden,), "bf16", ones, ADAM_RATE),
        "compress_wkv": Spec((sources, head_dim, hidden), "bf16", fan_in),
        "compress_wgate": Spec((gated, head_dim, hidden), "bf16", fan_in),
        "compress_norm": Spec((sources, head_dim), "bf16", ones, ADAM_RATE),
        "engram_wkv": Spec((engrams, engram_out, engram_in), "fp8", engram_projection(config)),
        "engram_q": per_stream,
        "engram_k": per_stream,
    }
    for i, rows in enumerate(table_rows(config)):
        specs[f"engram_table{i}"] = Spec((rows, config.engram_width), "fp8_rows", normal(0.5), 4e-3)
    return specs


def draft_specs(config: Config) -> dict[str, Spec]:
    """Return the parameters of the drafter; names start with `draft_`."""
    hidden, vocab, rank = config.hidden, config.vocab, config.draft_rank
    specs = block_specs(config, config.draft_blocks, config.draft_experts)
    specs |= {
        "main_proj": Spec((hidden, len(config.draft_taps) * hidden), "fp8", fan_in),
        "main_norm": Spec((hidden,), "bf16", ones, ADAM_RATE),
        "norm": Spec((hidden,), "bf16", ones, ADAM_RATE),
        "markov_embed": Spec((vocab, rank), "bf16", normal(0.5), 3e-3),
        "markov_head": Spec((vocab, rank), "bf16", zeros, 3e-3),
        "confidence": Spec((1, hidden + rank), "bf16", zeros, 3e-4),
    }
    return {f"draft_{name}": spec for name, spec in specs.items()}


def index_specs(config: Config) -> dict[str, Spec]:
    """Return the parameters of the indexer; names start with `index_`."""
    count, sources = len(config.index_sources), len(config.kv_sources)
    heads, dim = config.index_heads, config.index_dim
    return {
        "index_wq_b": Spec((count, heads * dim, config.q_rank), "fp8", fan_in, 1e-3),
        "index_weights_proj": Spec((count, heads, config.hidden), "bf16", fan_in, 5e-4),
        "index_wk": Spec((sources, dim, config.head_dim), "bf16", fan_in, 1e-3),
        "index_k_norm": Spec((sources, dim), "bf16", ones, ADAM_RATE),
    }


def start_values(specs: dict[str, Spec], seed: int) -> Tensors:
    """Draw the f32 start values, in the order of the specs."""
    generator = torch.Generator().manual_seed(seed)
    return {name: spec.start(spec.shape, generator) for name, spec in specs.items()}


def working_value(master: Tensor, storage: Storage, quantized: bool) -> Tensor:
    """Return the value a forward pass uses, in bf16 on a GPU and in f32 on a CPU.

    With `quantized` it is the value that the release stores.
    """
    if storage in QUANTIZERS:
        return (QUANTIZERS[storage](master) if quantized else master).to(WORK_DTYPE)
    if storage == "bf16":
        return master.to(torch.bfloat16).to(WORK_DTYPE)
    return master.clone()
