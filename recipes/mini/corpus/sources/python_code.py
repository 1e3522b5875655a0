"""Python code, as it is and as functions asked for by their docstrings."""

import ast
import random
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from corpus.files import read_utf8, sorted_files
from corpus.own.wording import say
from corpus.repositories import Repositories
from corpus.writer import Writer, mostly_latin

LICENCES = {
    "stdlib": "PSF-2.0",
    "torch": "BSD-3",
    "sympy": "BSD-3",
    "networkx": "BSD-3",
    "boto3": "Apache-2.0",
    "botocore": "Apache-2.0",
    "moto": "Apache-2.0",
    "flask": "BSD-3",
    "jinja2": "BSD-3",
    "werkzeug": "BSD-3",
    "click": "BSD-3",
    "pygments": "BSD-2",
    "trio": "MIT/Apache-2.0",
    "pydantic": "MIT",
    "requests": "Apache-2.0",
    "urllib3": "MIT",
    "prompt_toolkit": "BSD-3",
    "IPython": "BSD-3",
    "jedi": "MIT",
    "parso": "MIT",
    "docutils": "PD/BSD",
    "pip": "MIT",
    "setuptools": "MIT",
    "traitlets": "BSD-3",
    "mpmath": "BSD-3",
    "pyparsing": "MIT",
    "cryptography": "Apache-2.0/BSD",
    "attr": "MIT",
    "yaml": "MIT",
    "numpy": "BSD-3",
    "awscli": "Apache-2.0",
    "libcst": "MIT",
    "cfnlint": "MIT-0",
    "samtranslator": "Apache-2.0",
    "pexpect": "ISC",
    "jsonschema": "MIT",
    "responses": "Apache-2.0",
}
PLAIN_CHARACTERS = 2.5e6
PLAIN_CHARACTERS_OF = {
    "torch": 5e6,
    "botocore": 1.5e6,
    "moto": 4e6,
    "sympy": 4e6,
    "awscli": 2.5e6,
    "stdlib": 9e6,
    "numpy": 4e6,
}
VERBS = (
    "return|compute|check|convert|create|get|set|read|write|parse|find|make|build|load|save|"
    "remove|add|generate|determine|test|print|apply|calculate|format|yield|split|merge|sort|"
    "insert|delete|update|open|close|send|run|call|decode|encode|transform|extract|validate"
)
ALGORITHM_QUESTIONS = (
    "Implement {name} in Python.",
    "Write a Python program for {name}.",
    "Show me {name} in Python.",
)


def functions(rng: random.Random, text: str) -> Iterator[tuple[str, str]]:
    """Yield a question and an answer for each short function with a docstring."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = text.splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        docstring = ast.get_docstring(node)
        if not docstring:
            continue
        first = docstring.strip().split("\n\n")[0].replace("\n", " ").strip()
        if len(first.split()) < 4 or len(first) > 220 or not mostly_latin(first):
            continue
        code = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
        if len(code) > 1600 or node.end_lineno - node.lineno < 3:
            continue
        question = _question(rng, node.name, first)
        if rng.random() < 0.6 and len(node.body) > 1:
            code = _without_docstring(node, lines)
        yield question, f"```python\n{code.strip()}\n```"


def _question(rng: random.Random, name: str, first: str) -> str:
    """Ask for a function by the first sentence of its docstring."""
    sentence = first[0].lower() + first[1:].rstrip(".")
    match = re.match(rf"({VERBS})s?\b", sentence)
    if not match:
        return f"Write a Python function that {sentence}."
    rest, verb = sentence[len(match.group(0)) :], match.group(1)
    forms = (
        f"Write a Python function to {verb}{rest}.",
        f"Write a Python function `{name}` that {verb}s{rest}.",
        f"Implement `{name}` in Python: {first}",
    )
    return rng.choice(forms)


def _without_docstring(node: ast.FunctionDef, lines: list[str]) -> str:
    """Return the code of a function without its docstring."""
    docstring = node.body[0]
    before = lines[node.lineno - 1 : docstring.lineno - 1]
    after = lines[docstring.end_lineno : node.end_lineno]
    return textwrap.dedent("\n".join(before + after))


def _roots(library: Path, site_packages: list[Path]) -> list[tuple[str, Path]]:
    """Return the packages that are there, each in the first folder that has it."""
    roots = [("stdlib", library)]
    for name in LICENCES:
        found = [folder / name for folder in site_packages if (folder / name).is_dir()]
        if name != "stdlib" and found:
            roots.append((name, found[0]))
    return roots


def _wanted(package: str, inside: str) -> bool:
    """Return whether a file, named by its path inside the package, is code of the package."""
    if package == "stdlib" and any(
        part in inside for part in ("site-packages", "/idlelib/", "/lib2to3/")
    ):
        return False
    return not any(part in inside for part in ("/test", "_vendor", "/data/"))


def packages(writer: Writer, library: Path, site_packages: list[Path]) -> None:
    """Add the standard library (PSF-2.0) and the packages of `LICENCES`."""
    rng = writer.rng
    for package, root in _roots(library, site_packages):
        files = sorted_files(root, "**/*.py")
        files = [file for file in files if _wanted(package, f"/{file.relative_to(root)}")]
        rng.shuffle(files)
        limit, written = PLAIN_CHARACTERS_OF.get(package, PLAIN_CHARACTERS), 0
        for file in files:
            text = read_utf8(file)
            if text is None or not 300 < len(text) < 120_000 or not mostly_latin(text):
                continue
            pairs = list(functions(rng, text))
            if len(pairs) >= 2 and rng.random() < 0.55:
                for pair in pairs:
                    writer.chat(f"py:{package}", [pair], domain="code-chat")
            elif written <= limit:
                written += len(text)
                writer.plain("code", f"py:{package}", text)


def the_algorithms(writer: Writer, repositories: Repositories) -> None:
    """Add TheAlgorithms/Python, MIT."""
    source = "TheAlgorithms-Python"
    for path, content in repositories.search("TheAlgorithms/Python", r"\.py$"):
        text = content.decode("utf-8", "replace")
        for pair in list(functions(writer.rng, text)):
            writer.chat(source, [pair], domain="code-chat")
        if len(text) < 4500 and mostly_latin(text):
            name = Path(path).stem.replace("_", " ")
            question = say(writer.rng, ALGORITHM_QUESTIONS, name=name)
            answer = f"```python\n{text.strip()}\n```"
            writer.chat(source, [(question, answer)], domain="code-chat")
        else:
            writer.plain("code", source, text)
