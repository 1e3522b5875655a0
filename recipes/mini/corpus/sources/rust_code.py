"""Rust code, as it is and as functions asked for by their documentation."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from corpus.files import read_utf8, sorted_files
from corpus.own.wording import say
from corpus.repositories import Repositories
from corpus.writer import Writer, mostly_latin

ALGORITHM_QUESTIONS = (
    "Implement {name} in Rust.",
    "Write a Rust program for {name}.",
    "Show me {name} in Rust.",
)
FUNCTION_QUESTIONS = ("Write a Rust function: {what}", "Implement this in Rust: {what}")
STD_QUESTIONS = (
    "What does `{function}` do in Rust ({module})?",
    "Explain the Rust function `{module}::{function}`.",
    "How do I use `{function}` from `{module}` in Rust?",
)
DOCUMENTED_FUNCTION = re.compile(
    r"((?:^[ \t]*/// .*\n)+)((?:[ \t]*#\[.*\]\n)*)([ \t]*)"
    r"(pub (?:const |unsafe |async )*fn [^\n]*\n(?:.*\n)*?\3\})\n",
    re.MULTILINE,
)
DOCUMENTED_STD_FUNCTION = re.compile(
    r"((?:^[ \t]*///.*\n)+)"
    r"((?:[ \t]*#!?\[(?:.*\n)(?:[ \t]+[a-z_]+ = .*\n|[ \t]*\)\]\n)*)*)"
    r"[ \t]*pub (?:const |unsafe |async )*fn (\w+)",
    re.MULTILINE,
)
# Bindings and tables, which teach little.
LEFT_OUT = re.compile(
    r"^(windows|winapi|libc-|linux-raw|objc2|icu_.*data|unicode|encoding|web-sys|cudarc|ash-|"
    r"khronos|ndk-sys|vulkan|llvm-sys|rustix|nvml|tree-sitter|.*-sys-|mistral)"
)
PERMISSIVE = re.compile(r"MIT|Apache|BSD|Zlib|Unlicense|CC0|0BSD")
NOT_PERMISSIVE = re.compile(r"GPL|MPL|CDDL|EPL")
CRATE_CHARACTERS = 250_000
ALL_CRATES_CHARACTERS = 20e6


def the_algorithms(writer: Writer, repositories: Repositories) -> None:
    """Add TheAlgorithms/Rust, MIT, without its tests."""
    source = "TheAlgorithms-Rust"
    for path, content in repositories.search("TheAlgorithms/Rust", r"^src/.*(?<!mod)\.rs$"):
        text = content.decode("utf-8", "replace").split("#[cfg(test)]")[0]
        if len(text) < 4500 and mostly_latin(text):
            name = Path(path).stem.replace("_", " ")
            question = say(writer.rng, ALGORITHM_QUESTIONS, name=name)
            answer = f"```rust\n{text.strip()}\n```"
            writer.chat(source, [(question, answer)], domain="code-chat")
        else:
            writer.plain("code", source, text)


def functions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the first sentence of the documentation and the code of each short public function."""
    for match in DOCUMENTED_FUNCTION.finditer(text):
        documentation = " ".join(line.strip()[4:] for line in match.group(1).splitlines())
        first = re.split(r"(?<=[.!?])\s", documentation)[0].strip()
        code = match.group(4)
        if 60 <= len(code) <= 1200 and len(first.split()) >= 4 and len(first) <= 200:
            yield first, textwrap.dedent(match.group(3) + code)


def licensed_crates(folder: Path) -> list[tuple[str, str]]:
    """Return name and licence of the permissively licensed crates of a registry's `src` folder."""
    found = []
    for manifest in sorted_files(folder, "*/Cargo.toml"):
        name = manifest.parent.name
        if LEFT_OUT.match(name):
            continue
        match = re.search(r'^license = "(.*?)"', manifest.read_text(encoding="utf-8"), re.MULTILINE)
        licence = match.group(1) if match else ""
        if PERMISSIVE.search(licence) and not NOT_PERMISSIVE.search(licence):
            found.append((name, licence))
    return found


def crates(writer: Writer, folder: Path) -> list[tuple[str, str]]:
    """Add crates of the registry, one version of each; returns those that were looked at."""
    rng = writer.rng
    chosen = licensed_crates(folder)
    rng.shuffle(chosen)
    written, names = 0, set()
    for crate, _ in chosen:
        name = re.sub(r"-\d+\..*", "", crate)
        if name in names:
            continue
        names.add(name)
        of_crate = 0
        for file in sorted_files(folder / crate, "src/**/*.rs"):
            text = read_utf8(file)
            if text is None:
                continue
            is_table = text.count("0x") > len(text) / 60
            if not 400 < len(text) < 100_000 or not mostly_latin(text) or is_table:
                continue
            for what, code in list(functions(text)):
                if rng.random() < 0.5:
                    question = say(rng, FUNCTION_QUESTIONS, what=what)
                    answer = f"```rust\n{code.strip()}\n```"
                    writer.chat("rs:crates", [(question, answer)], domain="code-chat")
            if of_crate < CRATE_CHARACTERS and written < ALL_CRATES_CHARACTERS:
                of_crate += len(text)
                written += len(text)
                writer.plain("code", "rs:crates", text)
    return sorted(chosen)


def _documentation(comment: str) -> str:
    """Turn documentation comments into text without headings, attributes and targets of links."""
    lines = [re.sub(r"^[ \t]*/// ?", "", line) for line in comment.splitlines()]
    text = "\n".join(lines)
    text = re.sub(r"^# .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^#\[.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    text = re.sub(r"\[(`[^`]*`)\](\([^)]*\)|\[[^\]]*\])?", r"\1", text)
    return re.sub(r"^\[.*?\]: .*$", "", text, flags=re.MULTILINE).strip()


def standard_library(writer: Writer, debian: Path) -> None:
    """Add std, core and alloc, the Rust project, MIT or Apache-2.0 (Debian package rust-src)."""
    left_out = r"/(stdarch|portable-simd|backtrace|unicode_data|tests?|benches|core_arch)"
    for path in sorted_files(debian, "usr/src/rustc-*/library/*/src/**/*.rs"):
        if re.search(left_out, f"/{path.relative_to(debian)}"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if not 400 < len(text) < 150_000 or not mostly_latin(text):
            continue
        module = path.parent.name if path.stem == "mod" else path.stem
        for match in DOCUMENTED_STD_FUNCTION.finditer(text):
            body = _documentation(match.group(1))
            if 40 < len(body) < 1400:
                question = say(writer.rng, STD_QUESTIONS, function=match.group(3), module=module)
                writer.chat("Rust std docs", [(question, body)], domain="code-chat")
        if writer.rng.random() < 0.6:
            writer.plain("code", "Rust std", text)


def tokio(writer: Writer, repositories: Repositories) -> None:
    """Add tokio, MIT, without its tests."""
    for path, content in repositories.search("tokio-rs/tokio", r"\.rs$"):
        if "/tests/" not in path:
            writer.plain("code", "rs:tokio", content.decode("utf-8", "replace"))
