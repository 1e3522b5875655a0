"""lm-eval's local-completions against the server: scores of two small tasks, drafted and serial, and what they are made of."""

import importlib
import json
import math
import os

import pytest
from conftest import CONTEXT, MINI, ROOT, start

TASKS = ROOT / "clients" / "tasks"
ANSWERS, CONTINUATIONS = "tokenfare_answers", "tokenfare_continuations"


@pytest.fixture(scope="module")
def lm_eval(tmp_path_factory):
    """The package, without a hub and with its caches in a folder of the test."""
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    os.environ.update(offline, HF_HOME=str(tmp_path_factory.mktemp("hf")))
    os.chdir(ROOT)
    return importlib.import_module("lm_eval")


@pytest.fixture(scope="module")
def serial():
    """A server without drafts."""
    server, process = start("--no-drafts", "--parallel", "4", "--context", str(CONTEXT))
    yield server
    process.kill()
    process.wait()


def evaluate(lm_eval, server):
    """Both tasks' scores and, by document, what the server said."""
    from lm_eval.tasks import TaskManager

    model = {
        "model": "mini",
        "base_url": server.url + "/v1/completions",
        "tokenizer": str(MINI),
        "tokenizer_backend": "huggingface",
        "num_concurrent": 2,
        "max_length": CONTEXT,
    }
    done = lm_eval.simple_evaluate(
        model="local-completions",
        model_args=model,
        tasks=[ANSWERS, CONTINUATIONS],
        task_manager=TaskManager(include_path=str(TASKS), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
    )
    samples = {name: [s["resps"] for s in done["samples"][name]] for name in (ANSWERS, CONTINUATIONS)}
    return done["results"], samples


@pytest.fixture(scope="module")
def drafted(lm_eval, server):
    return evaluate(lm_eval, server)


def lines(name):
    return [json.loads(line) for line in (TASKS / name).read_text(encoding="utf-8").splitlines()]


def test_scores_and_replies_are_the_same_drafted_and_serial(lm_eval, drafted, serial):
    results, samples = drafted
    assert (results, samples) == evaluate(lm_eval, serial)
    answers = [reply for ((reply,),) in samples[ANSWERS]]
    assert answers == [document["answer"] for document in lines("answers.jsonl")]
    assert results[ANSWERS]["exact_match,none"] == 1.0


def test_likelihoods_are_the_sums_of_echoed_logprobs(server, drafted):
    from transformers import AutoTokenizer

    results, samples = drafted
    tokenizer = AutoTokenizer.from_pretrained(MINI)
    found = []
    for document, (((said, greedy),),) in zip(lines("continuations.jsonl"), samples[CONTINUATIONS], strict=True):
        context = tokenizer.encode(document["context"], add_special_tokens=False)
        whole = tokenizer.encode(document["context"] + document["continuation"], add_special_tokens=False)
        body = {"prompt": whole, "max_tokens": 0, "echo": True, "logprobs": 1}
        echoed = server.post("/v1/completions", body)["choices"][0]["logprobs"]
        values = echoed["token_logprobs"][len(context) :]
        best = [max(top.values()) for top in echoed["top_logprobs"][len(context) :]]
        assert (said, greedy) == (sum(values), values == best), document
        found.append(said)
    assert all(-200 < value < 0 for value in found)
    perplexity = math.exp(-sum(found) / len(found))
    assert math.isclose(results[CONTINUATIONS]["perplexity,none"], perplexity, rel_tol=1e-12)
