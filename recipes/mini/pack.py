"""Pack training tokens into a data folder: `python pack.py --help`."""

import argparse
import lzma
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from model.engram import token_map
from tokenizers import Tokenizer
from training.data import Documents

# Ids are little-endian pairs of bytes.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 3, "lc": 0, "lp": 1, "pb": 1, "dict_size": 1 << 26}]


def compress(content: bytes) -> bytes:
    """Return an xz file."""
    return lzma.compress(content, format=lzma.FORMAT_XZ, filters=FILTERS)


def write(folder: Path, training: Documents, held: Documents, tokenizer: Tokenizer) -> None:
    """Write tokens0.xz, tokens1.xz and side.npz."""
    folder.mkdir(parents=True, exist_ok=True)
    classes, count = token_map(tokenizer)
    np.savez(
        folder / "side.npz",
        token_map=np.array(classes, np.int32),
        compressed_vocab=count,
        lengths=training.lengths,
        domains=training.domains,
        held_ids=held.ids,
        held_lengths=held.lengths,
        held_domains=held.domains,
    )
    ids = training.ids
    half = len(ids) // 2
    with ProcessPoolExecutor(2) as pool:
        packed = pool.map(compress, [ids[:half].tobytes(), ids[half:].tobytes()])
        for number, content in enumerate(packed):
            (folder / f"tokens{number}.xz").write_bytes(content)


def main() -> None:
    """Read the arguments and pack."""
    parser = argparse.ArgumentParser(description="Pack WORK/train.npz and WORK/held_out.npz.")
    parser.add_argument("--work", type=Path, default=Path("work"))
    parser.add_argument("--tokenizer", type=Path, help="default: WORK/tokenizer/tokenizer.json")
    parser.add_argument("--data", type=Path, default=Path("data"))
    arguments = parser.parse_args()
    work = arguments.work
    file = arguments.tokenizer or work / "tokenizer/tokenizer.json"
    training = Documents(**np.load(work / "train.npz"))
    held = Documents(**np.load(work / "held_out.npz"))
    write(arguments.data, training, held, Tokenizer.from_file(str(file)))


if __name__ == "__main__":
    main()
