"""The pieces of a layer. T rows are B sequences of S tokens; X holds `streams` copies of a row.

Each public function is compiled once and used by all layers, so a layer's parameters come in as a
dictionary of tensors with the names of `parameters.block_specs`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from model.config import Config
from model.device import compiled
from model.parameters import Tensors
from model.quantize import quantize_fp4_cache, quantize_fp8_rows, straight_through
from model.rope import rotate, rotate_back
from model.sinkhorn import sinkhorn


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-20) -> Tensor:
    """Scale x [..., d] to a mean square of one, times weight [d]; computed in f32."""
    f = x.float()
    scale = torch.rsqrt(f.square().mean(-1, keepdim=True) + eps)
    return (weight.float() * (f * scale)).to(x.dtype)


def hyper_mix(
    x: Tensor, fn: Tensor, base: Tensor, scale: Tensor, config: Config
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the mixing weights of streams X [T, s, D].

    Returns f32 `pre` [T, s] (how the next sublayer reads), `post` [T, s] (how this one writes) and
    `comb` [T, s, s] (how streams mix).
    """
    s = config.streams
    flat = x.reshape(x.shape[0], -1)
    norm = torch.rsqrt(flat.float().square().mean(-1, keepdim=True) + config.norm_eps)
    m = F.linear(flat, fn.to(x.dtype)).float() * norm
    pre = torch.sigmoid(m[:, :s] * scale[0] + base[:s]) + config.hc_eps
    post = 2 * torch.sigmoid(m[:, s : 2 * s] * scale[1] + base[s : 2 * s])
    return pre, post, sinkhorn(m[:, 2 * s :] * scale[2] + base[2 * s :], config)


def hyper_read(x: Tensor, pre: Tensor) -> Tensor:
    """Sum streams X [T, s, D] with weights pre [T, s] to [T, D]."""
    return (pre.unsqueeze(-1) * x.float()).sum(1).to(x.dtype)


def hyper_write(branch: Tensor, x: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """Mix streams X [T, s, D] by comb [T, s, s] and add the branch [T, D] by post [T, s]."""
    y = post.unsqueeze(-1) * branch.float().unsqueeze(1)
    f = x.float()
    for i in range(x.shape[1]):
        y = y + comb[:, i, :].unsqueeze(-1) * f[:, i : i + 1]
    return y.to(x.dtype)


def hyper_start(rows: Tensor, config: Config) -> tuple[Tensor, Tensor]:
    """Copy embeddings [T, D] to all streams; the first sublayer reads the first stream.

    Returns X [T, s, D] and pre [T, s].
    """
    x = rows.unsqueeze(1).expand(-1, config.streams, -1).contiguous()
    pre = torch.zeros(rows.shape[0], config.streams, device=rows.device)
    pre[:, 0] = 1
    return x, pre


def grouped_output(o: Tensor, layer: Tensors, config: Config) -> Tensor:
    """Project heads' outputs [T, groups, group width] to [T, D] through a low rank a group."""
    wo_a = layer["wo_a"].view(config.o_groups, config.o_rank, -1)
    low = torch.einsum("tgd,grd->tgr", o, wo_a).reshape(o.shape[0], -1)
    return F.linear(low, layer["wo_b"])


@compiled
def attention_inputs(
    x: Tensor,
    pre: Tensor,
    layer: Tensors,
    rope: tuple[Tensor, Tensor],
    strength: Tensor,
    batch: int,
    config: Config,
) -> dict[str, Tensor]:
    """Compute what attention needs from streams X [T, s, D] and read weights pre [T, s].

    Returns `q` [B, H, S, d], `kv` [B, 1, S, d] (rounded to the window format by `strength`), the
    normed row `x` [T, D], the low-rank query `qr` [T, q_rank], and `pre`, `post`, `comb`.
    """
    cos, sin = rope
    next_pre, post, comb = hyper_mix(
        x, layer["hc_attn_fn"], layer["hc_attn_base"], layer["hc_attn_scale"], config
    )
    row = rms_norm(hyper_read(x, pre), layer["attn_norm"])
    length = row.shape[0] // batch
    qr = rms_norm(F.linear(row, layer["wq_a"]), layer["q_norm"])
    q = F.linear(qr, layer["wq_b"]).view(batch, length, config.heads, config.head_dim)
    kv = rms_norm(F.linear(row, layer["wkv"]), layer["kv_norm"])
    kv = kv.view(batch, length, config.head_dim)
    q = rotate(q, cos[:, None, :], sin[:, None, :]).transpose(1, 2)
    kv = rotate(kv, cos, sin)
    kv = straight_through(kv, quantize_fp8_rows(kv.float()).to(kv.dtype), strength).unsqueeze(1)
    parts = {"q": q.contiguous(), "kv": kv, "x": row, "qr": qr}
    return parts | {"pre": next_pre, "post": post, "comb": comb}


@compiled
def attention_output(
    o: Tensor,
    lse: Tensor,
    x: Tensor,
    mix: tuple[Tensor, Tensor],
    layer: Tensors,
    rope: tuple[Tensor, Tensor],
    config: Config,
) -> Tensor:
    """Write attention's result o [B, H, S, d] with log-sums lse [B, H, S] to streams X [T, s, D].

    The sink takes its share of each head's weight; `mix` is post and comb.
    """
    cos, sin = rope
    share = torch.sigmoid(lse - layer["attn_sink"][None, :, None]).unsqueeze(-1)
    o = (o.float() * share).to(o.dtype).transpose(1, 2)
    o = rotate_back(o, cos[:, None, :], sin[:, None, :]).reshape(x.shape[0], config.o_groups, -1)
    return hyper_write(grouped_output(o, layer, config), x, *mix)


def mixture(
    x: Tensor, layer: Tensors, bias: Tensor, top_k: int, config: Config
) -> tuple[Tensor, Tensor]:
    """Run the chosen experts and the shared one on rows x [T, D].

    All experts are computed and weighted, which is quicker than sorting rows at these sizes. `bias`
    [E] moves the choice and not the weights. Returns [T, D] and how often each expert was chosen.
    """
    rows = x.shape[0]
    experts, inner, hidden = layer["experts_w1"].shape
    scores = torch.sqrt(F.softplus(F.linear(x.float(), layer["gate"].float())))
    chosen = (scores.detach() + bias).topk(top_k, dim=-1).indices
    mask = torch.zeros_like(scores).scatter(1, chosen, 1.0)
    weights = scores * mask
    weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * config.route_scale
    weights = torch.cat([weights, torch.ones_like(weights[:, :1])], 1)
    flat = experts * inner
    w1 = torch.cat([layer["experts_w1"].reshape(flat, hidden), layer["shared_w1"]])
    w3 = torch.cat([layer["experts_w3"].reshape(flat, hidden), layer["shared_w3"]])
    w2 = layer["experts_w2"].transpose(1, 2).reshape(flat, hidden)
    w2 = torch.cat([w2, layer["shared_w2"].t()])
    gate = F.linear(x, w1).view(rows, experts + 1, inner)
    up = F.linear(x, w3).view(rows, experts + 1, inner)
    limit = config.swiglu_limit
    h = F.silu(gate.float().clamp(max=limit)) * up.float().clamp(-limit, limit)
    h = h * weights.unsqueeze(-1)
    return h.to(x.dtype).view(rows, -1) @ w2, mask.sum(0)


@compiled
def feed_forward(
    x: Tensor, pre: Tensor, layer: Tensors, bias: Tensor, top_k: int, config: Config
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the experts on streams X [T, s, D]; returns X, the next pre [T, s] and the loads [E]."""
    next_pre, post, comb = hyper_mix(
        x, layer["hc_ffn_fn"], layer["hc_ffn_base"], layer["hc_ffn_scale"], config
    )
    row = rms_norm(hyper_read(x, pre), layer["ffn_norm"])
    branch, load = mixture(row, layer, bias, top_k, config)
    return hyper_write(branch, x, post, comb), next_pre, load


def _cache_row(
    latent: Tensor, rope: tuple[Tensor, Tensor], strength: Tensor
) -> tuple[Tensor, Tensor]:
    """Return latent rows [B, n, d], and their keys [B, 1, n, d] rounded to the cache format."""
    key = rotate(latent, *rope)
    rounded = quantize_fp4_cache(key.float()).to(key.dtype)
    return latent, straight_through(key, rounded, strength).unsqueeze(1)


@compiled
def compress_pairs(
    x: Tensor,
    weights: tuple[Tensor, Tensor, Tensor],
    rope: tuple[Tensor, Tensor],
    strength: Tensor,
    batch: int,
) -> tuple[Tensor, Tensor]:
    """Compress each two rows of x [T, D] to one by gated sums; `weights` are wkv, wgate and norm.

    Returns latents [B, S/2, d] and keys [B, 1, S/2, d].
    """
    wkv, wgate, norm = weights
    shape = (batch, x.shape[0] // batch // 2, 2, wkv.shape[0])
    kv = F.linear(x, wkv).float().view(shape)
    score = F.linear(x, wgate).float().view(shape)
    latent = rms_norm((kv * score.softmax(2)).sum(2).to(x.dtype), norm)
    cos, sin = rope
    return _cache_row(latent, (cos[::2], sin[::2]), strength)


@compiled
def compress_single(
    x: Tensor,
    weights: tuple[Tensor, Tensor],
    rope: tuple[Tensor, Tensor],
    strength: Tensor,
    batch: int,
) -> tuple[Tensor, Tensor]:
    """Project each row of x [T, D]; `weights` are wkv and norm.

    Returns latents [B, S, d] and keys [B, 1, S, d].
    """
    wkv, norm = weights
    latent = rms_norm(F.linear(x, wkv), norm).view(batch, -1, wkv.shape[0])
    return _cache_row(latent, rope, strength)


@compiled
def engram(
    x: Tensor, rows: Tensor, wkv: Tensor, q_weight: Tensor, k_weight: Tensor, config: Config
) -> Tensor:
    """Add what table rows [T, columns * width] hold to streams X [T, s, D], by their fit."""
    count, streams, hidden = x.shape
    kv = F.linear(rows, wkv)
    key = kv[:, : streams * hidden].float().view(count, streams, hidden)
    value = kv[:, streams * hidden :].float()
    h = x.float()
    weight = q_weight.float() * k_weight.float()
    norm = torch.rsqrt(h.square().mean(-1) + config.norm_eps)
    norm = norm * torch.rsqrt(key.square().mean(-1) + config.norm_eps)
    fit = (h * weight * key).sum(-1) * norm * hidden**-0.5
    gate = torch.sigmoid(torch.copysign(fit.abs().clamp_min(1e-6).sqrt(), fit))
    return (h + gate.unsqueeze(-1) * value.unsqueeze(1)).to(x.dtype)


@compiled
def next_token_loss(x: Tensor, pre: Tensor, norm: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of the targets [T] after streams X [T, s, D]."""
    hidden = rms_norm(hyper_read(x, pre), norm)
    return F.cross_entropy(F.linear(hidden, head).float(), targets)
