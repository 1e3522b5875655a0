"""Engram: rows of large tables, looked up by hashes of the last tokens."""

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, normalizers
from torch import Tensor

from model.config import PAD_ID, Config
from model.device import DEVICE

LARGEST = np.iinfo(np.int64).max


def _is_prime(n: int) -> bool:
    """Return whether n is prime."""
    return n > 1 and all(n % i for i in range(2, int(n**0.5) + 1))


def bucket_primes(config: Config) -> list[list[list[int]]]:
    """Return the bucket counts [layer][order][head]: ascending primes, none used twice.

    The search of every order starts anew at `engram_buckets`.
    """
    used: set[int] = set()
    layers = []
    for _ in config.engram_layers:
        orders = []
        for _ in range(config.engram_ngram - 1):
            candidate, heads = config.engram_buckets - 1, []
            for _ in range(config.engram_heads):
                candidate += 1
                while candidate in used or not _is_prime(candidate):
                    candidate += 1
                used.add(candidate)
                heads.append(candidate)
            orders.append(heads)
        layers.append(orders)
    return layers


def table_rows(config: Config) -> list[int]:
    """Return the number of rows of each layer's table."""
    return [sum(map(sum, orders)) for orders in bucket_primes(config)]


def multipliers(config: Config, compressed_vocab: int) -> Tensor:
    """Return the odd multipliers [layer, ngram] of the hash."""
    bound = max(1, (LARGEST // compressed_vocab) // 2)
    rows = []
    for layer in config.engram_layers:
        generator = np.random.default_rng(10007 * layer)
        draws = generator.integers(0, bound, size=(config.engram_ngram,), dtype=np.int64)
        rows.append(torch.tensor(draws * 2 + 1))
    return torch.stack(rows)


def token_map(tokenizer: Tokenizer) -> tuple[list[int], int]:
    """Return the class of each token id, and the number of classes.

    Tokens whose normalised text is equal share a class; a token that is no complete text stands
    for itself.
    """
    space = "\ue000"
    normalizer = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.NFD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"[ \t\r\n]+"), " "),
            normalizers.Replace(Regex(r"^ $"), space),
            normalizers.Strip(),
            normalizers.Replace(space, " "),
        ]
    )
    classes: dict[str, int] = {}
    mapped = []
    for token in range(tokenizer.get_vocab_size()):
        text = tokenizer.decode([token], skip_special_tokens=False)
        if "\ufffd" in text:
            key = tokenizer.id_to_token(token)
        else:
            key = normalizer.normalize_str(text) or text
        mapped.append(classes.setdefault(key, len(classes)))
    return mapped, len(classes)


class Hasher:
    """Finds the table rows of every position of a batch."""

    def __init__(self, config: Config, mapped: np.ndarray, compressed_vocab: int) -> None:
        """Take the class of each token id, [vocab], and the number of classes."""
        self.ngram = config.engram_ngram
        self.map = torch.tensor(mapped, dtype=torch.int64, device=DEVICE)
        self.pad = self.map[PAD_ID]
        self.multipliers = multipliers(config, compressed_vocab).to(DEVICE)
        primes = torch.tensor(bucket_primes(config), dtype=torch.int64)
        self.primes = primes.to(DEVICE)
        sizes = primes.flatten(1)
        self.offsets = (sizes.cumsum(1) - sizes).to(DEVICE)

    def __call__(self, ids: Tensor) -> Tensor:
        """Return the rows [B, S, layers, columns] of ids [B, S] that start at position 0."""
        classes = self.map[ids]
        batch, length = classes.shape
        shifted = [classes]
        for back in range(1, self.ngram):
            pad = self.pad.expand(batch, back)
            shifted.append(torch.cat([pad, classes[:, : length - back]], 1))
        products = torch.stack(shifted, -1).unsqueeze(2) * self.multipliers
        rolling, hashes = products[..., 0], []
        for order in range(1, self.ngram):
            rolling = rolling ^ products[..., order]
            hashes.append(rolling.unsqueeze(-1) % self.primes[:, order - 1])
        return torch.cat(hashes, -1) + self.offsets
