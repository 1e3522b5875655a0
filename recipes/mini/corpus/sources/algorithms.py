"""Collections of algorithms and sample programs."""

import re
from pathlib import PurePosixPath

from corpus.own.wording import say
from corpus.repositories import Repositories
from corpus.writer import Writer, mostly_latin

LANGUAGES = {
    "python": "Python",
    "rust": "Rust",
    "javascript": "JavaScript",
    "typescript": "TypeScript",
    "go": "Go",
    "java": "Java",
    "c": "C",
    "c-plus-plus": "C++",
    "c-sharp": "C#",
    "ruby": "Ruby",
    "kotlin": "Kotlin",
    "swift": "Swift",
    "php": "PHP",
    "bash": "Bash",
    "lua": "Lua",
    "perl": "Perl",
    "haskell": "Haskell",
}
FENCES = {"C++": "cpp", "C#": "csharp", "Bash": "sh"}
COLLECTIONS = (
    (
        "trekhleb/javascript-algorithms",
        r"^src/(algorithms|data-structures)/.*\.js$",
        "js-algorithms",
    ),
    ("keon/algorithms", r"^algorithms/.*\.py$", "keon-algorithms"),
    (
        "TheRenegadeCoder/sample-programs",
        rf"^archive/.*/({'|'.join(LANGUAGES)})/[^/]*\.\w+$",
        "sample-programs",
    ),
)
FIXED_LANGUAGE = {"js-algorithms": "JavaScript", "keon-algorithms": "Python"}
QUESTIONS = (
    "Write a {language} program for {name}.",
    "Implement {name} in {language}.",
    "Show me {name} in {language}.",
    "How do I write {name} in {language}?",
)


def _name(path: str) -> str:
    """Turn a file's name into words: `bubbleSort.js` into `bubble sort`."""
    stem = re.sub(r"\.\w+$", "", PurePosixPath(path).name)
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", stem)
    return spaced.replace("_", " ").replace("-", " ").lower()


def collections(writer: Writer, repositories: Repositories) -> None:
    """Add javascript-algorithms, keon/algorithms and sample-programs, all MIT."""
    for repository, pattern, source in COLLECTIONS:
        for path, content in repositories.search(repository, pattern):
            if "__test__" in path or path.endswith((".md", ".yml")):
                continue
            text = content.decode("utf-8", "replace")
            language = FIXED_LANGUAGE.get(source) or LANGUAGES[path.split("/")[2]]
            if 80 < len(text) < 3500 and mostly_latin(text):
                question = say(writer.rng, QUESTIONS, language=language, name=_name(path))
                fence = FENCES.get(language, language.lower())
                answer = f"```{fence}\n{text.strip()}\n```"
                writer.chat(source, [(question, answer)], domain="code-chat")
