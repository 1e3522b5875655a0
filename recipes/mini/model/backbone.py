"""The forward pass of the backbone over whole sequences."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from model import blocks
from model.attention import attention
from model.config import Config
from model.parameters import Tensors, block_specs
from model.rope import RopeTable

WHOLE = ("embed", "head", "norm")


class IndexInputs(NamedTuple):
    """What the indexer of a layer learns from: its inputs, and the parts of attention."""

    x: Tensor
    qr: Tensor
    latent: Tensor
    q: Tensor
    k: Tensor
    lse: Tensor


class Pass(NamedTuple):
    """Results of a forward pass over T rows.

    Streams `x` [T, s, D] and read weights `pre` [T, s] for the head; `loads` [layers, E]; `taps`,
    each [T, D], and `index` by layer, both empty unless they were asked for.
    """

    x: Tensor
    pre: Tensor
    loads: Tensor
    taps: list[Tensor]
    index: dict[int, IndexInputs]


def layers_of(
    stacked: dict[str, tuple[Tensor, ...]], names: list[str], count: int
) -> list[Tensors]:
    """Return one dictionary a layer from tensors that were taken apart along dimension 0."""
    return [{name: stacked[name][i] for name in names} for i in range(count)]


def forward(
    weights: Tensors,
    bias: Tensor,
    ids: Tensor,
    hashes: Tensor,
    strength: Tensor,
    ropes: tuple[RopeTable, RopeTable],
    config: Config,
    observe: bool = False,
) -> Pass:
    """Run ids [B, S] with Engram rows `hashes` [B, S, layers, columns] through all layers.

    `bias` [layers, E] is the router's; `strength` how far caches are rounded; `ropes` the tables of
    plain and of compressed layers, of S positions. `observe` keeps taps and index inputs.
    """
    batch, length = ids.shape
    stacked = {
        name: value.unbind(0)
        for name, value in weights.items()
        if name not in WHOLE and not name.startswith(("engram_table", "draft_", "index_"))
    }
    layers = layers_of(stacked, list(block_specs(config, 1, 1)), config.layers)
    x, pre = blocks.hyper_start(F.embedding(ids, weights["embed"]).flatten(0, 1), config)
    loads, taps, index = [], [], {}
    compressed, latent, gates = None, None, iter(stacked["compress_wgate"])
    for number, layer in enumerate(layers):
        ratio = config.ratios[number]
        rope = ropes[1 if ratio else 0]
        if number in config.engram_layers:
            i = config.engram_layers.index(number)
            rows = hashes[:, :, i].reshape(batch * length, -1)
            rows = F.embedding(rows, weights[f"engram_table{i}"])
            engram_weights = [stacked[name][i] for name in ("engram_wkv", "engram_q", "engram_k")]
            x = blocks.engram(x, rows.flatten(1), *engram_weights, config)
        if observe and number in config.draft_taps:
            taps.append(x.detach().float().mean(1).to(x.dtype))
        parts = blocks.attention_inputs(x, pre, layer, rope, strength, batch, config)
        if number in config.kv_sources:
            i = config.kv_sources.index(number)
            x_in, wkv, norm = parts["x"], stacked["compress_wkv"][i], stacked["compress_norm"][i]
            if ratio == 2:
                parts_of = (wkv, next(gates), norm)
                latent, compressed = blocks.compress_pairs(x_in, parts_of, rope, strength, batch)
            else:
                parts_of = (wkv, norm)
                latent, compressed = blocks.compress_single(x_in, parts_of, rope, strength, batch)
        k = torch.cat([parts["kv"], compressed], 2) if ratio else parts["kv"]
        o, lse = attention(parts["q"], k, ratio, config)
        if observe and number in config.index_sources:
            index[number] = IndexInputs(parts["x"], parts["qr"], latent, parts["q"], k, lse)
        mix = (parts["post"], parts["comb"])
        x = blocks.attention_output(o, lse, x, mix, layer, rope, config)
        x, pre, load = blocks.feed_forward(
            x, parts["pre"], layer, bias[number], config.top_k, config
        )
        loads.append(load)
    return Pass(x, pre, torch.stack(loads), taps, index)
