"""Packed training tokens, and batches of them.

A data folder holds `tokens0.xz` and `tokens1.xz` (uint16 ids of all documents, one after another)
and `side.npz` (see `pack.py`).
"""

import lzma
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from model.config import PAD_ID
from model.device import DEVICE
from torch import Tensor

DOMAINS = ("chat", "code-chat", "code", "prose", "own")

# How often a document of each domain comes in one pass over the data.
Mix = tuple[float, float, float, float, float]

POOL_BATCHES = 32
SHORTEST_REST = 256


class Documents(NamedTuple):
    """Documents one after another: ids, and the length and domain of each."""

    ids: np.ndarray
    lengths: np.ndarray
    domains: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        """Return where each document starts."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]])

    def of_domain(self, domain: int, longest: int) -> list[np.ndarray]:
        """Return the first ids of every document of a domain."""
        places = zip(self.starts, self.lengths, self.domains, strict=True)
        return [
            self.ids[start : start + min(length, longest)].astype(np.int64)
            for start, length, of in places
            if of == domain
        ]


class Data(NamedTuple):
    """Training and held-out documents, and the Engram classes of the vocabulary."""

    training: Documents
    held_out: Documents
    token_map: np.ndarray
    compressed_vocab: int


def load(folder: Path) -> Data:
    """Read a data folder."""
    side = np.load(folder / "side.npz")
    with ThreadPoolExecutor(2) as pool:
        packed = [(folder / f"tokens{i}.xz").read_bytes() for i in (0, 1)]
        parts = pool.map(lzma.decompress, packed)
        ids = np.concatenate([np.frombuffer(part, np.uint16) for part in parts])
    training = Documents(ids, side["lengths"].astype(np.int64), side["domains"])
    held_lengths = side["held_lengths"].astype(np.int64)
    held_out = Documents(side["held_ids"], held_lengths, side["held_domains"])
    return Data(training, held_out, side["token_map"], int(side["compressed_vocab"]))


def rows_of_pass(
    documents: Documents, mix: Mix, length: int, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yield rows of length + 1 ids; each starts with a document or continues a long one.

    A row shares its first id with the last of the row before, so that no prediction is lost; a
    short rest of a document that does not fit is dropped.
    """
    wanted = np.array(mix)[documents.domains]
    repeats = np.floor(wanted + rng.random(len(wanted))).astype(int)
    order = np.repeat(np.arange(len(wanted)), repeats)
    rng.shuffle(order)
    starts, size = documents.starts, length + 1
    row = np.empty(size, np.uint16)
    filled = 0
    for number in order:
        start, total, taken = starts[number], documents.lengths[number], 0
        while taken < total:
            step = min(size - filled, total - taken)
            at = start + taken
            row[filled : filled + step] = documents.ids[at : at + step]
            filled += step
            taken += step
            if filled == size:
                yield row.copy()
                filled = 0
                if total - taken < SHORTEST_REST:
                    break
                taken -= 1


class BatchSource:
    """Makes batches in a thread of its own, a few ahead."""

    def __init__(
        self,
        documents: Documents,
        mix: Mix,
        batch: int,
        length: int,
        pool_batches: int = POOL_BATCHES,
    ) -> None:
        """Start; rows are shuffled in pools of `pool_batches` batches."""
        self._documents = documents
        self._mix = mix
        self._batch, self._length, self._pool = batch, length, pool_batches
        self._queue: queue.Queue[np.ndarray] = queue.Queue(24)
        threading.Thread(target=self._run, daemon=True).start()

    def set_mix(self, mix: Mix) -> None:
        """Change the mix; batches that are made already still come."""
        self._mix = mix

    def next(self) -> Tensor:
        """Return ids [batch, length + 1]."""
        ids = torch.from_numpy(self._queue.get())
        return ids.pin_memory().to(DEVICE, non_blocking=True) if DEVICE == "cuda" else ids

    def _run(self) -> None:
        rng = np.random.default_rng(1)
        pool: list[np.ndarray] = []
        while True:
            mix = self._mix
            for row in rows_of_pass(self._documents, mix, self._length, rng):
                pool.append(row)
                if len(pool) >= self._batch * self._pool:
                    rng.shuffle(pool)
                    for start in range(0, len(pool) // self._batch * self._batch, self._batch):
                        rows = np.stack(pool[start : start + self._batch])
                        self._queue.put(rows.astype(np.int64))
                    pool = []
                if mix != self._mix:
                    break


def padded(rows: list[np.ndarray], batch: int, length: int) -> Tensor:
    """Return ids [batch, length] that start with the rows, filled up with padding."""
    ids = np.full((batch, length), PAD_ID, np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return torch.from_numpy(ids).to(DEVICE)
