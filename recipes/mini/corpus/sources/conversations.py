"""Conversations and questions that people wrote."""

import json
import re

import yaml

from corpus.repositories import Repositories
from corpus.writer import Writer

CHATTERBOT_TOPICS = (
    "ai|botprofile|computers|conversations|emotion|food|greetings|health|history|humor|"
    "literature|money|movies|psychology|science|sports|trivia"
)


def taskmaster(writer: Writer, repositories: Repositories) -> None:
    """Add Taskmaster-4, Google, CC BY 4.0."""
    name = "google-research-datasets/Taskmaster"
    for _, content in repositories.search(name, r"TM-4-2024/data/data_\d+\.json$"):
        for dialogue in json.loads(content):
            pairs = _pairs(dialogue["utterances"])
            if pairs:
                writer.chat("Taskmaster-4", pairs, system_rate=0.05)


def _pairs(utterances: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Join the utterances of one speaker; what comes before the user is left out."""
    pairs: list[tuple[str, str]] = []
    user = answer = ""
    for utterance in utterances:
        text = utterance["text"]
        if utterance["speaker"].lower() == "user":
            if answer:
                pairs.append((user, answer))
                user = answer = ""
            user = f"{user} {text}" if user else text
        elif user:
            answer = f"{answer} {text}" if answer else text
    if user and answer:
        pairs.append((user, answer))
    return pairs


def javascript_questions(writer: Writer, repositories: Repositories) -> None:
    """Add javascript-questions, Lydia Hallie, MIT: question, code and explanation."""
    text = repositories.show("lydiahallie/javascript-questions", "README.md").decode(
        "utf-8", "replace"
    )
    pattern = r"^###### \d+\. (.*?)\n(.*?)<details>.*?<p>(.*?)</p>"
    for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
        title, code, answer = match.groups()
        answer = re.sub(r"!\[.*?\]\(.*?\)|<[^>]+>", "", answer).strip()
        answer = re.sub(r"^#+ *", "", answer, flags=re.MULTILINE)
        pair = (f"{title.strip()}\n{code.strip()}", answer)
        writer.chat("javascript-questions", [pair], domain="code-chat")


def chatterbot(writer: Writer, repositories: Repositories) -> None:
    """Add chatterbot-corpus, Gunther Cox, BSD-3-Clause: its English files."""
    pattern = rf"data/english/({CHATTERBOT_TOPICS})\.yml$"
    for _, content in repositories.search("gunthercox/chatterbot-corpus", pattern):
        try:
            conversations = yaml.safe_load(content).get("conversations", [])
        except yaml.YAMLError:
            continue
        for conversation in conversations:
            said = [str(line) for line in conversation]
            if len(said) >= 2:
                pairs = [(said[i], said[i + 1]) for i in range(0, len(said) - 1, 2)]
                writer.chat("chatterbot-corpus", pairs)


def self_instruct(writer: Writer, repositories: Repositories) -> None:
    """Add self-instruct, Apache-2.0: the human-written seed and user-oriented tasks alone."""
    pattern = r"(seed_tasks|user_oriented_instructions)\.jsonl$"
    for _, content in repositories.search("yizhongw/self-instruct", pattern):
        for line in content.decode("utf-8", "replace").splitlines():
            task = json.loads(line)
            for instance in task.get("instances", []):
                if isinstance(instance, dict) and instance.get("output"):
                    given = f"\n{instance['input']}" if instance.get("input") else ""
                    pair = (task["instruction"] + given, instance["output"])
                    writer.chat("self-instruct seeds", [pair])
