"""From f32 master tensors to the tensors and shards of a release."""

import json
from pathlib import Path
from typing import Literal

import torch
from model.config import Config
from model.parameters import Tensors
from model.quantize import E4M3_MAX, fp4_groups, fp8_blocks, fp8_row_groups, round_e2m1
from safetensors.torch import save_file
from torch import Tensor

Part = Literal["main", "index", "draft"]
ALL_PARTS: tuple[Part, ...] = ("main", "index", "draft")

E2M1_VALUES = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
SHARD_BYTES = 15_500_000


def e8m0(scale: Tensor) -> Tensor:
    """Return powers of two as E8M0 bytes: the exponent plus 127."""
    return (torch.log2(scale).round() + 127).to(torch.uint8).view(torch.float8_e8m0fnu)


def _e4m3(x: Tensor) -> Tensor:
    return x.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)


def pack_fp8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return E4M3 codes [r, c] and scales [r/32, c/32] of f32 weights [r, c]."""
    blocks, scale = fp8_blocks(weight.float())
    codes = _e4m3(blocks / scale).flatten(2).flatten(0, 1).contiguous()
    return codes, e8m0(scale[:, 0, :, 0])


def pack_fp8_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return E4M3 codes [r, c] and scales [r, c/32] of an Engram table [r, c]."""
    groups, scale = fp8_row_groups(weight.float())
    return _e4m3(groups / scale).flatten(-2).contiguous(), e8m0(scale[..., 0])


def pack_fp4(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return E2M1 codes, two a byte, [r, c/2], and scales [r, c/32] of f32 weights [r, c]."""
    groups, scale = fp4_groups(weight.float())
    values = round_e2m1(groups / scale)
    magnitude = values.abs()
    codes = torch.zeros_like(magnitude, dtype=torch.uint8)
    for code, value in enumerate(E2M1_VALUES):
        codes[magnitude == value] = code
    codes = (codes | (torch.signbit(values).to(torch.uint8) << 3)).flatten(-2)
    # A zero is stored without a sign.
    codes[codes == 8] = 0
    packed = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return packed.contiguous().view(torch.int8), e8m0(scale[..., 0])


class Exporter:
    """Collects the tensors of a release under their names."""

    def __init__(self, masters: Tensors, config: Config) -> None:
        """Take f32 tensors on the CPU, named as in `model.parameters`."""
        self.masters = masters
        self.config = config
        self.tensors: Tensors = {}

    def _fp8(self, name: str, weight: Tensor) -> None:
        self.tensors[f"{name}.weight"], self.tensors[f"{name}.scale"] = pack_fp8(weight)

    def _fp4(self, name: str, weight: Tensor) -> None:
        self.tensors[f"{name}.weight"], self.tensors[f"{name}.scale"] = pack_fp4(weight)

    def _bf16(self, name: str, value: Tensor) -> None:
        self.tensors[name] = value.to(torch.bfloat16).contiguous()

    def _f32(self, name: str, value: Tensor) -> None:
        self.tensors[name] = value.float().contiguous()

    def _block(self, name: str, layer: Tensors, bias: Tensor) -> None:
        """Add one layer's attention and experts; the router's bias [E] stands for images too."""
        for part in ("wq_a", "wkv", "wq_b", "wo_a", "wo_b"):
            self._fp8(f"{name}.attn.{part}", layer[part])
        self._bf16(f"{name}.attn.q_norm.weight", layer["q_norm"])
        self._bf16(f"{name}.attn.kv_norm.weight", layer["kv_norm"])
        self._f32(f"{name}.attn.attn_sink", layer["attn_sink"])
        self._bf16(f"{name}.attn_norm.weight", layer["attn_norm"])
        self._bf16(f"{name}.ffn_norm.weight", layer["ffn_norm"])
        for part in ("hc_attn", "hc_ffn"):
            for kind in ("fn", "base", "scale"):
                self._f32(f"{name}.{part}_{kind}", layer[f"{part}_{kind}"])
        self._bf16(f"{name}.ffn.gate.weight", layer["gate"])
        self._f32(f"{name}.ffn.gate.bias", bias)
        self._f32(f"{name}.ffn.gate.bias_vl", bias.clone())
        for expert in range(layer["experts_w1"].shape[0]):
            for part in ("w1", "w2", "w3"):
                self._fp4(f"{name}.ffn.experts.{expert}.{part}", layer[f"experts_{part}"][expert])
        for part in ("w1", "w2", "w3"):
            self._fp8(f"{name}.ffn.shared_experts.{part}", layer[f"shared_{part}"])

    def _layer(self, number: int, prefix: str = "") -> Tensors:
        """Return the tensors of one layer without their prefix."""
        return {
            name.removeprefix(prefix): value[number]
            for name, value in self.masters.items()
            if name.startswith(prefix) and number < value.shape[0]
        }

    def main(self, bias: Tensor) -> None:
        """Add the backbone; bias is [layers, E]."""
        masters, config = self.masters, self.config
        self._bf16("embed.weight", masters["embed"])
        self._bf16("head.weight", masters["head"])
        self._bf16("norm.weight", masters["norm"])
        for number in range(config.layers):
            self._block(f"layers.{number}", self._layer(number), bias[number])
        gates = iter(masters["compress_wgate"])
        for i, number in enumerate(config.kv_sources):
            name = f"layers.{number}.attn.compressor"
            self._bf16(f"{name}.wkv.weight", masters["compress_wkv"][i])
            self._bf16(f"{name}.norm.weight", masters["compress_norm"][i])
            if config.ratios[number] > 1:
                self._bf16(f"{name}.wgate.weight", next(gates))
        for i, number in enumerate(config.engram_layers):
            name = f"layers.{number}.engram"
            self._fp8(f"{name}.wkv", masters["engram_wkv"][i])
            self._bf16(f"{name}.q_weight", masters["engram_q"][i])
            self._bf16(f"{name}.k_weight", masters["engram_k"][i])
            table = pack_fp8_rows(masters[f"engram_table{i}"])
            self.tensors[f"{name}.embed.weight"], self.tensors[f"{name}.embed.scale"] = table

    def index(self) -> None:
        """Add the indexer."""
        masters, config = self.masters, self.config
        for i, number in enumerate(config.index_sources):
            name = f"layers.{number}.attn.indexer"
            self._fp8(f"{name}.wq_b", masters["index_wq_b"][i])
            self._bf16(f"{name}.weights_proj.weight", masters["index_weights_proj"][i])
            if number in config.kv_sources:
                source = config.kv_sources.index(number)
                self._bf16(f"{name}.wk.weight", masters["index_wk"][source])
                self._bf16(f"{name}.k_norm.weight", masters["index_k_norm"][source])

    def draft(self, bias: Tensor) -> None:
        """Add the drafter; bias is [blocks, E]."""
        masters, last = self.masters, self.config.draft_blocks - 1
        for number in range(self.config.draft_blocks):
            self._block(f"mtp.{number}", self._layer(number, "draft_"), bias[number])
        self._fp8("mtp.0.main_proj", masters["draft_main_proj"])
        self._bf16("mtp.0.main_norm.weight", masters["draft_main_norm"])
        self._bf16(f"mtp.{last}.norm.weight", masters["draft_norm"])
        self._bf16(f"mtp.{last}.markov_head.embed.weight", masters["draft_markov_embed"])
        self._bf16(f"mtp.{last}.markov_head.head.weight", masters["draft_markov_head"])
        self._bf16(f"mtp.{last}.confidence_head.proj.weight", masters["draft_confidence"])


def export(masters: Tensors, bias: Tensor, draft_bias: Tensor, config: Config) -> Tensors:
    """Return all tensors of a release."""
    exporter = Exporter(masters, config)
    exporter.main(bias)
    exporter.index()
    exporter.draft(draft_bias)
    return exporter.tensors


def export_main(masters: Tensors, bias: Tensor, config: Config) -> Tensors:
    """Return the tensors of the backbone alone."""
    exporter = Exporter(masters, config)
    exporter.main(bias)
    return exporter.tensors


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def write_shards(folder: Path, tensors: Tensors) -> int:
    """Write shards of at most `SHARD_BYTES` and their index; returns the bytes of all tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    shards: list[Tensors] = [{}]
    used = 0
    for name, tensor in tensors.items():
        if used + _size(tensor) > SHARD_BYTES and shards[-1]:
            shards.append({})
            used = 0
        shards[-1][name] = tensor
        used += _size(tensor)
    places = {}
    for number, shard in enumerate(shards, start=1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        places |= dict.fromkeys(shard, file)
    total = sum(map(_size, tensors.values()))
    index = {"metadata": {"total_size": total}, "weight_map": places}
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index, indent=0), encoding="utf-8")
    return total
