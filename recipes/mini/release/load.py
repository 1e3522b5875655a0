"""From a release to the working tensors of the model, in f32."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from model.config import Config
from model.parameters import Tensors
from safetensors.torch import load_file
from torch import Tensor

E2M1_CODES = torch.tensor(
    [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float32
)


class Loaded(NamedTuple):
    """Working tensors, and the biases of the routers [layers, E] and [blocks, E]."""

    weights: Tensors
    bias: Tensor
    draft_bias: Tensor


def read_tensors(folder: Path) -> Tensors:
    """Read all shards that the index names."""
    index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
    tensors: Tensors = {}
    for file in sorted(set(index["weight_map"].values())):
        tensors |= load_file(folder / file)
    return tensors


def dequantize(tensors: Tensors, name: str) -> Tensor:
    """Return the f32 values [r, c] of a weight with its scales."""
    weight, scale = tensors[f"{name}.weight"], tensors[f"{name}.scale"].float()
    if weight.dtype == torch.int8:
        packed = weight.view(torch.uint8)
        pairs = [E2M1_CODES[(packed & 15).long()], E2M1_CODES[(packed >> 4).long()]]
        return torch.stack(pairs, -1).flatten(-2) * scale.repeat_interleave(32, 1)
    if name.endswith("engram.embed"):
        return weight.float() * scale.repeat_interleave(32, 1)
    rows, columns = weight.shape
    blocks = scale.repeat_interleave(32, 0)[:rows].repeat_interleave(32, 1)[:, :columns]
    return weight.float() * blocks


def _stack(names: list[str], read: Callable[[str], Tensor]) -> Tensor:
    return torch.stack([read(name) for name in names])


def _blocks(tensors: Tensors, layers: list[str], experts: int) -> Tensors:
    """Return the parameters of `parameters.block_specs`, stacked over layers, and `bias`."""

    def dense(suffix: str) -> Tensor:
        return _stack(layers, lambda layer: dequantize(tensors, f"{layer}.{suffix}"))

    def value(suffix: str) -> Tensor:
        return _stack(layers, lambda layer: tensors[f"{layer}.{suffix}"].float())

    found = {part: dense(f"attn.{part}") for part in ("wq_a", "wkv", "wq_b", "wo_a", "wo_b")}
    found["q_norm"] = value("attn.q_norm.weight")
    found["kv_norm"] = value("attn.kv_norm.weight")
    found["attn_sink"] = value("attn.attn_sink")
    found["attn_norm"] = value("attn_norm.weight")
    found["ffn_norm"] = value("ffn_norm.weight")
    for part in ("hc_attn", "hc_ffn"):
        for kind in ("fn", "base", "scale"):
            found[f"{part}_{kind}"] = value(f"{part}_{kind}")
    found["gate"] = value("ffn.gate.weight")
    found["bias"] = value("ffn.gate.bias")
    for part in ("w1", "w2", "w3"):
        all_experts = [dense(f"ffn.experts.{expert}.{part}") for expert in range(experts)]
        found[f"experts_{part}"] = torch.stack(all_experts, 1)
        found[f"shared_{part}"] = dense(f"ffn.shared_experts.{part}")
    return found


def working_tensors(tensors: Tensors, config: Config) -> Loaded:
    """Return what the forward passes use; the indexer, which they do not need, is left out."""

    def plain(names: list[str]) -> Tensor:
        return _stack(names, lambda name: tensors[name].float())

    weights = _blocks(tensors, [f"layers.{i}" for i in range(config.layers)], config.experts)
    bias = weights.pop("bias")
    for part in ("embed", "head", "norm"):
        weights[part] = tensors[f"{part}.weight"].float()
    compressors = {i: f"layers.{i}.attn.compressor" for i in config.kv_sources}
    gated = [name for i, name in compressors.items() if config.ratios[i] > 1]
    weights["compress_wkv"] = plain([f"{name}.wkv.weight" for name in compressors.values()])
    weights["compress_norm"] = plain([f"{name}.norm.weight" for name in compressors.values()])
    weights["compress_wgate"] = plain([f"{name}.wgate.weight" for name in gated])
    engrams = [f"layers.{i}.engram" for i in config.engram_layers]
    weights["engram_wkv"] = _stack(engrams, lambda name: dequantize(tensors, f"{name}.wkv"))
    weights["engram_q"] = plain([f"{name}.q_weight" for name in engrams])
    weights["engram_k"] = plain([f"{name}.k_weight" for name in engrams])
    for i, name in enumerate(engrams):
        weights[f"engram_table{i}"] = dequantize(tensors, f"{name}.embed")
    mtp = [f"mtp.{i}" for i in range(config.draft_blocks)]
    drafter = _blocks(tensors, mtp, config.draft_experts)
    draft_bias = drafter.pop("bias")
    last = mtp[-1]
    drafter["main_proj"] = dequantize(tensors, "mtp.0.main_proj")
    drafter["main_norm"] = tensors["mtp.0.main_norm.weight"].float()
    drafter["norm"] = tensors[f"{last}.norm.weight"].float()
    drafter["markov_embed"] = tensors[f"{last}.markov_head.embed.weight"].float()
    drafter["markov_head"] = tensors[f"{last}.markov_head.head.weight"].float()
    drafter["confidence"] = tensors[f"{last}.confidence_head.proj.weight"].float()
    weights |= {f"draft_{name}": value for name, value in drafter.items()}
    return Loaded(weights, bias, draft_bias)
