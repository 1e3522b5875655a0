"""The DSpark drafter in its training form: many anchors a sequence against a frozen backbone.

An anchor at position p knows token p and the backbone before p; it predicts the tokens after p, one
block of `draft_block` at once. N anchors make N * block rows.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from model import blocks
from model.backbone import layers_of
from model.config import Config
from model.device import compiled
from model.parameters import Tensors, block_specs
from model.quantize import quantize_fp8_rows, straight_through
from model.rope import RopeTable, rotate, rotate_back


class DraftLoss(NamedTuple):
    """Losses of a batch of blocks, weighted by position.

    `loss` is what is minimised; `cross_entropy` and `confidence` its parts. `acceptance` [block] is
    the expected acceptance at each position, `agrees` [N, block] whether the likeliest tokens of
    drafter and backbone are equal.
    """

    loss: Tensor
    cross_entropy: Tensor
    acceptance: Tensor
    confidence: Tensor
    agrees: Tensor


@compiled
def _inputs(
    x: Tensor, pre: Tensor, layer: Tensors, rope: RopeTable, strength: Tensor, config: Config
) -> dict[str, Tensor]:
    """Compute queries `q` [N, H, block, d], keys `kv` [N, block, d], and `pre`, `post`, `comb`.

    X is [N * block, s, D], pre [N * block, s]; the rope tables have a row for each row of X.
    """
    cos, sin = rope
    next_pre, post, comb = blocks.hyper_mix(
        x, layer["hc_attn_fn"], layer["hc_attn_base"], layer["hc_attn_scale"], config
    )
    row = blocks.rms_norm(blocks.hyper_read(x, pre), layer["attn_norm"])
    qr = blocks.rms_norm(F.linear(row, layer["wq_a"]), layer["q_norm"])
    q = F.linear(qr, layer["wq_b"]).view(row.shape[0], config.heads, config.head_dim)
    q = rotate(q, cos[:, None], sin[:, None])
    kv = rotate(blocks.rms_norm(F.linear(row, layer["wkv"]), layer["kv_norm"]), cos, sin)
    kv = straight_through(kv, quantize_fp8_rows(kv.float()).to(kv.dtype), strength)
    q = q.view(-1, config.draft_block, config.heads, config.head_dim).transpose(1, 2).contiguous()
    kv = kv.view(-1, config.draft_block, config.head_dim)
    return {"q": q, "kv": kv, "pre": next_pre, "post": post, "comb": comb}


@compiled
def _context(
    main: Tensor, layer: Tensors, rope: RopeTable, strength: Tensor, shape: tuple[int, int, int]
) -> Tensor:
    """Return a layer's keys [B, S, d], which is `shape`, for the backbone's rows `main` [T, D]."""
    kv = blocks.rms_norm(F.linear(main, layer["wkv"]), layer["kv_norm"]).view(shape)
    kv = rotate(kv, *rope)
    return straight_through(kv, quantize_fp8_rows(kv.float()).to(kv.dtype), strength)


@compiled
def _attend(
    q: Tensor, context: Tensor, kv: Tensor, known: Tensor, sink: Tensor, config: Config
) -> Tensor:
    """Attend from blocks q [N, H, block, d] to a window of context and to the whole block.

    context is [N, window, d], kv [N, block, d], known [N, window] where the context exists.
    Returns [N, block, H, d].
    """
    k = torch.cat([context, kv], 1)
    scores = torch.einsum("nhqd,nkd->nhqk", q, k).float() * config.head_dim**-0.5
    mask = torch.cat([known, torch.ones_like(known[:, : config.draft_block])], 1)
    scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
    sinks = sink.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    weights = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
    return torch.einsum("nhqk,nkd->nqhd", weights.to(k.dtype), k)


@compiled
def _output(
    o: Tensor,
    x: Tensor,
    mix: tuple[Tensor, Tensor],
    layer: Tensors,
    rope: RopeTable,
    config: Config,
) -> Tensor:
    """Write attention's result o [N, block, H, d] to streams X by `mix`, post and comb."""
    cos, sin = rope
    rows = x.shape[0]
    o = o.reshape(rows, config.heads, config.head_dim)
    o = rotate_back(o, cos[:, None], sin[:, None]).reshape(rows, config.o_groups, -1)
    return blocks.hyper_write(blocks.grouped_output(o, layer, config), x, *mix)


def forward(
    drafter: Tensors,
    embed: Tensor,
    bias: Tensor,
    ids: Tensor,
    taps: Tensor,
    anchors: Tensor,
    strength: Tensor,
    rope: RopeTable,
    config: Config,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run blocks at anchors [B, A] of ids [B, S], whose backbone rows are taps [T, taps * D].

    `drafter` holds the parameters without their `draft_` prefix. Returns streams X
    [B * A * block, s, D], read weights pre and the loads [blocks, E].
    """
    batch, length = ids.shape
    block, window = config.draft_block, config.window
    count = anchors.numel()
    names = list(block_specs(config, 1, 1))
    stacked = {name: drafter[name].unbind(0) for name in names}
    main = blocks.rms_norm(F.linear(taps, drafter["main_proj"]), drafter["main_norm"])
    first = anchors.reshape(count, 1)
    tokens = torch.full((count, block), config.noise_id, device=ids.device, dtype=torch.int64)
    tokens[:, 0] = ids.gather(1, anchors).reshape(count)
    positions = (first + torch.arange(block, device=ids.device)).reshape(-1)
    block_rope = (rope[0][positions], rope[1][positions])
    main_rope = (rope[0][:length], rope[1][:length])
    x, pre = blocks.hyper_start(F.embedding(tokens.view(-1), embed), config)
    before = first - window + torch.arange(window, device=ids.device)
    known = before >= 0
    sequence = torch.arange(batch, device=ids.device).repeat_interleave(anchors.shape[1])
    rows = sequence[:, None] * length + before.clamp_min(0)
    loads = []
    for number, layer in enumerate(layers_of(stacked, names, config.draft_blocks)):
        parts = _inputs(x, pre, layer, block_rope, strength, config)
        shape = (batch, length, config.head_dim)
        keys = _context(main, layer, main_rope, strength, shape).reshape(-1, config.head_dim)
        context = F.embedding(rows, keys)
        o = _attend(parts["q"], context, parts["kv"], known, layer["attn_sink"], config)
        x = _output(o, x, (parts["post"], parts["comb"]), layer, block_rope, config)
        x, pre, load = blocks.feed_forward(
            x, parts["pre"], layer, bias[number], config.draft_top_k, config
        )
        loads.append(load)
    return x, pre, torch.stack(loads)


def head(
    x: Tensor, pre: Tensor, drafter: Tensors, output: Tensor, previous: Tensor
) -> tuple[Tensor, Tensor]:
    """Return logits [rows, V] and confidence logits [rows] after the tokens `previous` [rows].

    `output` [V, D] is the backbone's head; the Markov head adds what follows from the last token.
    """
    hidden = blocks.hyper_read(x, pre)
    markov = F.embedding(previous, drafter["markov_embed"])
    logits = F.linear(blocks.rms_norm(hidden, drafter["norm"]), output).float()
    logits = logits + F.linear(markov, drafter["markov_head"]).float()
    both = torch.cat([hidden, markov], -1).float()
    return logits, F.linear(both, drafter["confidence"].float()).squeeze(-1)


@compiled
def loss(
    x: Tensor,
    pre: Tensor,
    drafter: Tensors,
    output: Tensor,
    tokens: tuple[Tensor, Tensor],
    target_hidden: Tensor,
    weights: Tensor,
    config: Config,
) -> DraftLoss:
    """Compare drafts with the backbone's distributions; weights [rows] fall along a block.

    `tokens` are the tokens before and at each prediction, each [rows]; target_hidden [rows, D] are
    the backbone's normed rows for the same predictions. The total variation is weighted 0.9, the
    cross-entropy 0.1; the confidence learns the expected acceptance.
    """
    previous, targets = tokens
    logits, confidence = head(x, pre, drafter, output, previous)
    target = F.linear(target_hidden, output).float().softmax(-1)
    log_draft = logits.log_softmax(-1)
    distance = (log_draft.exp() - target).abs().sum(-1)
    cross_entropy = -log_draft.gather(-1, targets[:, None]).squeeze(-1)
    acceptance = (1 - 0.5 * distance).detach()
    calibration = F.binary_cross_entropy_with_logits(confidence, acceptance, reduction="none")
    total = weights.sum()
    agrees = (logits.argmax(-1) == target.argmax(-1)).float()
    return DraftLoss(
        (weights * (0.1 * cross_entropy + 0.9 * distance + calibration)).sum() / total,
        (weights * cross_entropy).sum() / total,
        acceptance.view(-1, config.draft_block).mean(0),
        (weights * calibration).sum() / total,
        agrees.view(-1, config.draft_block),
    )
