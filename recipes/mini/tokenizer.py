"""Train the byte-level BPE tokenizer: `python tokenizer.py --help`.

The splits are DeepSeek-V4.1's; the control tokens have its names.
"""

import argparse
import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from model.config import MINI, TAIL_TOKENS
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)

HEAD_TOKENS = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>")
# Tags that replies may show.
SHOWN_TOKENS = ("<think>", "</think>", "｜DSML｜")
SPLITS = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
TRAINING_CHARACTERS = 60e6


def train(texts: Iterable[str], vocab: int) -> Tokenizer:
    """Return a tokenizer of `vocab` tokens, trained on texts without control tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *[pre_tokenizers.Split(Regex(split), "isolated") for split in SPLITS],
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab - len(TAIL_TOKENS),
        special_tokens=list(HEAD_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        min_frequency=2,
    )
    tokenizer.train_from_iterator(texts, trainer)
    for token in (*HEAD_TOKENS, *TAIL_TOKENS):
        if token in SHOWN_TOKENS:
            tokenizer.add_tokens([AddedToken(token, special=False, normalized=False)])
        else:
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
    size = tokenizer.get_vocab_size()
    if size != vocab:
        raise ValueError(f"{vocab} tokens expected, {size} found: the texts are too short")
    return tokenizer


def config_json(max_context: int) -> dict:
    """Return the content of tokenizer_config.json."""
    begin, end, pad = HEAD_TOKENS
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": begin,
        "eos_token": end,
        "pad_token": pad,
        "add_bos_token": False,
        "add_eos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_context,
        "legacy": True,
        "unk_token": None,
    }


def write(tokenizer: Tokenizer, folder: Path, max_context: int) -> None:
    """Write tokenizer.json and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    content = json.dumps(config_json(max_context), ensure_ascii=False, indent=1)
    (folder / "tokenizer_config.json").write_text(content, encoding="utf-8")


def corpus_texts(docs: Path) -> Iterator[str]:
    """Yield documents in random order without control tokens, up to `TRAINING_CHARACTERS`."""
    with docs.open(encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    order = list(range(len(documents)))
    random.Random(0).shuffle(order)
    control = re.compile("|".join(re.escape(token) for token in HEAD_TOKENS + TAIL_TOKENS))
    total = 0
    for number in order:
        text = control.sub("\n", documents[number]["t"])
        total += len(text)
        yield text
        if total > TRAINING_CHARACTERS:
            break


def main() -> None:
    """Read the arguments and train."""
    parser = argparse.ArgumentParser(description="Train a tokenizer on WORK/docs.jsonl.")
    parser.add_argument("--work", type=Path, default=Path("work"))
    work = parser.parse_args().work
    tokenizer = train(corpus_texts(work / "docs.jsonl"), MINI.vocab)
    write(tokenizer, work / "tokenizer", MINI.max_context)


if __name__ == "__main__":
    main()
