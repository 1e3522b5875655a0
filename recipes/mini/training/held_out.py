"""The loss of the backbone on documents that it was not trained on."""

import math

import torch.nn.functional as F
from model.config import PAD_ID

from training.budget import log
from training.data import DOMAINS, Documents, padded
from training.drafter import Frozen

# Own text has no held-out documents.
HELD_DOMAINS = DOMAINS[:4]


def losses(frozen: Frozen, documents: Documents, batch: int, length: int) -> dict[str, float]:
    """Return the mean loss a token in each domain, over the first `batch` documents."""
    found = {}
    for number, domain in enumerate(HELD_DOMAINS):
        rows = documents.of_domain(number, length + 1)[:batch]
        if not rows:
            continue
        ids = padded(rows, batch, length + 1)
        hidden = frozen.observe(ids[:, :-1].contiguous()).hidden
        targets = ids[:, 1:].reshape(-1)
        real = targets != PAD_ID
        logits = F.linear(hidden[real], frozen.weights["head"]).float()
        loss = F.cross_entropy(logits, targets[real]).item()
        log(f"held-out {domain}: loss {loss:.4f}, perplexity {math.exp(loss):.2f}")
        found[domain] = loss
    return found
