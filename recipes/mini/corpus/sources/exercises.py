"""Exercises with solutions: sums, functions in many languages, programming tracks."""

import json
import re

from corpus.repositories import Repositories
from corpus.writer import Writer

LANGUAGES = {
    "python": "Python",
    "java": "Java",
    "javascript": "JavaScript",
    "typescript": "TypeScript",
    "go": "Go",
    "ruby": "Ruby",
    "kotlin": "Kotlin",
    "php": "PHP",
    "csharp": "C#",
    "cpp": "C++",
    "perl": "Perl",
    "scala": "Scala",
    "swift": "Swift",
}
TRACKS = (
    ("exercism/python", "Python", r"\.meta/(example|exemplar)\.py$"),
    ("exercism/rust", "Rust", r"\.meta/example\.rs$"),
    ("exercism/javascript", "JavaScript", r"\.meta/(proof\.ci|exemplar)\.js$"),
)


def grade_school_math(writer: Writer, repositories: Repositories) -> None:
    """Add GSM8K, OpenAI, MIT; half of it with the steps as reasoning."""
    for _, content in repositories.search("openai/grade-school-math", r"data/(train|test)\.jsonl$"):
        for line in content.decode().splitlines():
            task = json.loads(line)
            steps, final = re.sub(r"<<[^>]*>>", "", task["answer"]).split("####")
            steps, conclusion = steps.strip(), f"The answer is {final.strip()}."
            if writer.rng.random() < 0.5:
                writer.chat("GSM8K", [(task["question"], conclusion)], reasoning=steps)
            else:
                writer.chat("GSM8K", [(task["question"], f"{steps}\n\n{conclusion}")])


def mxeval(writer: Writer, repositories: Repositories) -> None:
    """Add MBXP and multilingual HumanEval of MXEval, Amazon, Apache-2.0."""
    pattern = r"data/(mbxp|multilingual_humaneval)/(?!.*(metadata|example)).*\.jsonl$"
    for _, content in repositories.search("amazon-science/mxeval", pattern):
        for line in content.decode().splitlines():
            try:
                task = json.loads(line)
            except json.JSONDecodeError:
                continue
            _mxeval_task(writer, task)


def _mxeval_task(writer: Writer, task: dict[str, str]) -> None:
    """Ask one task by its description, or else to complete its first lines."""
    solution, language = task.get("canonical_solution"), task.get("language")
    if not solution or language not in LANGUAGES:
        return
    prompt, description = task["prompt"].strip(), task.get("description")
    if description:
        question = description.strip()
        if language != "python" or writer.rng.random() >= 0.5:
            question = f"{question.rstrip('.')} in {LANGUAGES[language]}."
    else:
        question = f"Complete this {LANGUAGES[language]} function:\n```{language}\n{prompt}\n```"
    code = f"{prompt}\n{solution.rstrip()}".replace("\t", "    ")
    if len(code) < 2500:
        pair = (question, f"```{language}\n{code}\n```")
        writer.chat("MXEval", [pair], domain="code-chat")


def exercism(writer: Writer, repositories: Repositories) -> None:
    """Add the exercism tracks of Python, Rust and JavaScript, MIT."""
    for name, language, solution in TRACKS:
        exercises: dict[str, dict[str, str]] = {}
        pattern = rf"exercises/.*(\.docs/(instructions|introduction)\.md$|{solution})"
        for path, content in repositories.search(name, pattern):
            if "instructions" in path:
                part = "instructions"
            else:
                part = "introduction" if "introduction" in path else "solution"
            exercise = exercises.setdefault("/".join(path.split("/")[:3]), {})
            exercise[part] = content.decode("utf-8", "replace")
        for exercise in exercises.values():
            _exercise(writer, exercise, language)


def _exercise(writer: Writer, exercise: dict[str, str], language: str) -> None:
    """Ask for the solution, and keep the introduction as running text."""
    instructions, solution = exercise.get("instructions", ""), exercise.get("solution", "")
    both = "instructions" in exercise and "solution" in exercise
    if both and len(instructions) < 2500 and len(solution) < 3000:
        task = re.sub(r"^# .*\n", "", instructions).strip()
        question = f"Solve this exercise in {language}.\n\n{task}"
        answer = f"```{language.lower()}\n{solution.strip()}\n```"
        writer.chat("exercism", [(question, answer)], domain="code-chat")
    if "introduction" in exercise:
        writer.plain("prose", "exercism", exercise["introduction"])
