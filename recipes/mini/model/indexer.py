"""The indexer learns which compressed rows the attention of its layer looks at."""

import torch
import torch.nn.functional as F
from torch import Tensor

from model.backbone import IndexInputs
from model.blocks import rms_norm
from model.config import Config
from model.parameters import Tensors
from model.rope import RopeTable, rotate

# Positions with fewer compressed rows teach little.
FEWEST_ROWS = 8


def _attention_share(inputs: IndexInputs, length: int, visible: Tensor, config: Config) -> Tensor:
    """Return how all heads together weigh the compressed rows, [B, S, rows], summing to one."""
    compressed = inputs.k[:, 0, length:]
    scores = torch.einsum("bhsd,btd->bhst", inputs.q, compressed).float() * config.head_dim**-0.5
    share = torch.exp(scores - inputs.lse.unsqueeze(-1)).masked_fill(~visible, 0).sum(1)
    return share / (share.sum(-1, keepdim=True) + 1e-9)


def loss(
    indexer: Tensors,
    inputs: dict[int, IndexInputs],
    length: int,
    rope: RopeTable,
    config: Config,
    sequences: int = 4,
) -> tuple[Tensor, dict[int, Tensor]]:
    """Return the sum of the divergences from attention, and the divergence of each layer.

    Only the first sequences of the batch are used; `length` is S, `rope` the compressed layers'
    table.
    """
    total, by_layer, key = 0.0, {}, None
    cos, sin = rope
    for i, layer in enumerate(config.index_sources):
        given = IndexInputs(*(tensor.detach() for tensor in inputs[layer]))
        ratio, batch = config.ratios[layer], given.q.shape[0]
        n = min(sequences, batch)
        if layer in config.kv_sources:
            s = config.kv_sources.index(layer)
            key = rms_norm(
                F.linear(given.latent[:n], indexer["index_wk"][s]), indexer["index_k_norm"][s]
            )
            rows = key.shape[1]
            key = rotate(key, cos[::ratio][:rows], sin[::ratio][:rows])
        query = F.linear(given.qr.view(batch, length, -1)[:n], indexer["index_wq_b"][i])
        query = query.view(n, length, config.index_heads, config.index_dim)
        query = rotate(query, cos[:, None], sin[:, None])
        row = given.x.view(batch, length, -1)[:n]
        weight = F.linear(row, indexer["index_weights_proj"][i]).float()
        weight = weight * (config.index_dim**-0.5 * config.index_heads**-0.5)
        scores = torch.einsum("bshd,btd->bsht", query, key).float().relu()
        scores = (scores * weight.unsqueeze(-1)).sum(2)
        with torch.no_grad():
            few = IndexInputs(*given[:3], given.q[:n], given.k[:n], given.lse[:n])
            columns = torch.arange(given.k.shape[2] - length, device=query.device)
            complete = (torch.arange(length, device=query.device) + 1) // ratio
            visible = columns[None] < complete[:, None]
            share = _attention_share(few, length, visible, config)
        log_scores = scores.masked_fill(~visible, -1e9).log_softmax(-1)
        enough = visible.sum(-1) > FEWEST_ROWS
        divergence = (share * (torch.log(share + 1e-9) - log_scores)).sum(-1)[:, enough].mean()
        total = total + divergence
        by_layer[layer] = divergence.detach()
    return total, by_layer
