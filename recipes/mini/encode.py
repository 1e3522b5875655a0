"""Tokenise the corpus, hold documents out, drop what overlaps: `python encode.py --help`."""

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from corpus.own import tools
from tokenizers import Tokenizer
from training.data import DOMAINS, Documents
from training.held_out import HELD_DOMAINS

WINDOW = 20
HELD_A_DOMAIN = 64
HELD_LENGTHS = range(81, 3000)
OVERLAP_SHARE, OVERLAP_WINDOWS = 0.25, 80
BATCH = 4096


def windows(ids: np.ndarray) -> np.ndarray:
    """Return a hash of every run of `WINDOW` ids [n - WINDOW + 1]; none for a shorter text."""
    count = len(ids) - WINDOW + 1
    if count < 1:
        return np.zeros(0, np.uint64)
    wide = ids.astype(np.uint64)
    hashes = np.zeros(count, np.uint64)
    for offset in range(WINDOW):
        hashes = hashes * np.uint64(1000003) + wide[offset : count + offset] + np.uint64(7)
    return hashes


def overlaps(ids: np.ndarray, held: np.ndarray) -> bool:
    """Return whether many windows of a document are among the sorted `held` hashes."""
    found = windows(ids)
    if not len(found):
        return False
    at = np.minimum(np.searchsorted(held, found), len(held) - 1)
    common = int((held[at] == found).sum())
    return common >= max(1, OVERLAP_SHARE * len(found)) or common >= OVERLAP_WINDOWS


def tokenize(documents: list[dict], tokenizer: Tokenizer) -> list[np.ndarray]:
    """Return the ids of every document."""
    found = []
    for start in range(0, len(documents), BATCH):
        texts = [document["t"] for document in documents[start : start + BATCH]]
        for encoding in tokenizer.encode_batch(texts, add_special_tokens=False):
            found.append(np.array(encoding.ids, dtype=np.uint16))
    return found


def choose_held_out(ids: Sequence[np.ndarray], domains: np.ndarray, count: int) -> list[int]:
    """Return the first `count` documents of middle length of each domain but the own text."""
    held, counts = [], dict.fromkeys(range(len(HELD_DOMAINS)), 0)
    for number, domain in enumerate(domains.tolist()):
        fits = len(ids[number]) in HELD_LENGTHS
        if domain in counts and counts[domain] < count and fits:
            held.append(number)
            counts[domain] += 1
    return held


def select(ids: Sequence[np.ndarray], domains: np.ndarray, numbers: list[int]) -> Documents:
    """Return chosen documents, one after another."""
    chosen = [ids[number] for number in numbers]
    lengths = np.array([len(document) for document in chosen], np.int32)
    return Documents(np.concatenate(chosen), lengths, domains[numbers])


def split(
    documents: list[dict], tokenizer: Tokenizer, held_a_domain: int = HELD_A_DOMAIN
) -> tuple[Documents, Documents]:
    """Return training and held-out documents without overlaps."""
    ids = tokenize(documents, tokenizer)
    domains = np.array([DOMAINS.index(document["d"]) for document in documents], np.uint8)
    held = choose_held_out(ids, domains, held_a_domain)
    # The text that tells of tools is the same everywhere and no overlap.
    preamble = tokenizer.encode(tools.preamble(""), add_special_tokens=False).ids
    hashes = np.unique(np.concatenate([windows(ids[number]) for number in held]))
    hashes = np.setdiff1d(hashes, windows(np.array(preamble, np.uint16)))
    chosen = set(held)
    kept = [
        number
        for number in range(len(ids))
        if number not in chosen and not overlaps(ids[number], hashes)
    ]
    print(f"{len(held)} held out, {len(ids) - len(held) - len(kept)} dropped, {len(kept)} kept")
    return select(ids, domains, kept), select(ids, domains, held)


def main() -> None:
    """Read the arguments and write train.npz and held_out.npz."""
    parser = argparse.ArgumentParser(description="Tokenise WORK/docs.jsonl.")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--tokenizer", type=Path, help="default: WORK/tokenizer/tokenizer.json")
    arguments = parser.parse_args()
    work = arguments.work
    file = arguments.tokenizer or work / "tokenizer/tokenizer.json"
    with (work / "docs.jsonl").open(encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    random.Random(5).shuffle(documents)
    training, held = split(documents, Tokenizer.from_file(str(file)))
    np.savez(work / "train.npz", **training._asdict())
    np.savez(work / "held_out.npz", **held._asdict())


if __name__ == "__main__":
    main()
