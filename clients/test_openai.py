"""The openai package against the server: shapes, constraints and the equality of drafted and serial replies."""

import json
from typing import Literal

import openai
import pytest
from conftest import CONTEXT
from pydantic import BaseModel

QUESTION = "What is a GPU?"
WEATHER = "What is the weather in Paris?"
SERIAL = {"draft": False}


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0) as client:
        yield client


def chat(client, question=QUESTION, extra=None, **more):
    more = {"temperature": 0, "max_tokens": 64, **more}
    messages = [{"role": "user", "content": question}]
    return client.chat.completions.create(model="mini", messages=messages, extra_body=extra, **more)


def tool(name, argument):
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": f"Use {name}.", "parameters": schema}}


TOOLS = [tool("get_weather", "city"), tool("calculate", "expression")]


def without_ids(choice):
    """A choice as plain data; ids of calls belong to the request."""
    data = choice.model_dump(exclude={"message": {"parsed"}})
    for call in data["message"].get("tool_calls") or []:
        assert call.pop("id").startswith("call_")
    return data


def usage(reply):
    """What a reply cost, without what the prompt cache had of it."""
    data = reply.usage.model_dump()
    data.pop("prompt_tokens_details")
    return data


def exact(ask):
    """`ask` with drafts and without; everything but the count of drafts must be equal."""
    drafted, serial = ask(None), ask(SERIAL)
    assert [without_ids(c) for c in drafted.choices] == [without_ids(c) for c in serial.choices]
    assert usage(drafted) == usage(serial)
    assert drafted.tokenfare["token_sha256"] == serial.tokenfare["token_sha256"]
    assert len(drafted.tokenfare["token_sha256"]) == 64
    assert serial.tokenfare["drafted"] == 0
    return drafted


def joined(stream):
    """A streamed chat: text, reasoning, calls, logprobs, the finish reason and the last usage and receipt."""
    text, reasoning, calls, logprobs, finish, used, receipt = "", "", [], [], None, None, None
    pieces = 0
    for chunk in stream:
        assert chunk.object == "chat.completion.chunk"
        used = chunk.usage or used
        receipt = getattr(chunk, "tokenfare", None) or receipt
        for choice in chunk.choices:
            delta = choice.delta
            text += delta.content or ""
            reasoning += getattr(delta, "reasoning_content", None) or ""
            for call in delta.tool_calls or []:
                if call.index == len(calls):
                    assert call.id and call.function.name
                    calls.append([call.function.name, ""])
                pieces += 1
                calls[call.index][1] += call.function.arguments or ""
            logprobs += (choice.logprobs and choice.logprobs.content) or []
            if choice.finish_reason:
                assert finish is None, "two ends"
                finish = choice.finish_reason
    return {
        "text": text,
        "reasoning": reasoning,
        "calls": calls,
        "pieces": pieces,
        "logprobs": logprobs,
        "finish": finish,
        "usage": used,
        "receipt": receipt,
    }


def test_the_model_is_listed_and_can_be_asked_for(client):
    (model,) = client.models.list().data
    assert (model.id, model.object, model.owned_by) == ("mini", "model", "tokenfare")
    assert model.max_model_len == CONTEXT


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("thinking", [False, True])
def test_a_chat_is_the_same_drafted_serial_and_streamed(client, temperature, thinking):
    def ask(extra, **more):
        extra = {"thinking": thinking, **(extra or {})}
        return chat(client, extra=extra, temperature=temperature, seed=7, logprobs=True, top_logprobs=3, **more)

    whole = exact(ask)
    (choice,) = whole.choices
    assert choice.message.role == "assistant"
    assert len(choice.logprobs.content) == whole.usage.completion_tokens
    assert all(len(t.top_logprobs) == 3 and t.logprob <= 0 for t in choice.logprobs.content)
    details = whole.usage.completion_tokens_details
    assert (details.reasoning_tokens > 0) == thinking
    assert details.reasoning_tokens <= whole.usage.completion_tokens
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

    parts = joined(ask(None, stream=True, stream_options={"include_usage": True}))
    assert parts["text"] == (choice.message.content or "")
    assert parts["reasoning"] == (getattr(choice.message, "reasoning_content", None) or "")
    assert parts["finish"] == choice.finish_reason
    assert parts["usage"].completion_tokens == whole.usage.completion_tokens
    assert parts["receipt"]["token_sha256"] == whole.tokenfare["token_sha256"]
    values = [(t.token, t.logprob) for t in parts["logprobs"]]
    assert values == [(t.token, t.logprob) for t in choice.logprobs.content]


def test_greedy_tokens_have_the_highest_logprob(client):
    reply = chat(client, logprobs=True, top_logprobs=1)
    for token in reply.choices[0].logprobs.content:
        assert token.logprob == token.top_logprobs[0].logprob
        assert token.token == token.top_logprobs[0].token


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "calculate"}}])
def test_tool_calls_are_the_same_drafted_serial_and_streamed(client, choice):
    def ask(extra, **more):
        return chat(client, WEATHER, extra, tools=TOOLS, tool_choice=choice, max_tokens=128, **more)

    whole = exact(ask)
    message = whole.choices[0].message
    calls = message.tool_calls
    assert calls and whole.choices[0].finish_reason == "tool_calls"
    names = {"calculate"} if isinstance(choice, dict) else {"get_weather", "calculate"}
    for call in calls:
        assert call.function.name in names
        (value,) = json.loads(call.function.arguments).values()
        assert isinstance(value, str)
    assert "DSML" not in whole.model_dump_json()

    parts = joined(ask(None, stream=True))
    assert parts["calls"] == [[c.function.name, c.function.arguments] for c in calls]
    assert (parts["text"], parts["finish"]) == (message.content or "", "tool_calls")
    assert parts["pieces"] > 2 * len(calls), "arguments come in pieces"


def test_a_tool_result_goes_on_the_conversation(client):
    messages = [{"role": "user", "content": WEATHER}]
    first = client.chat.completions.create(
        model="mini", messages=messages, tools=TOOLS, tool_choice="required", temperature=0, max_tokens=128
    )
    call = first.choices[0].message.tool_calls[0]
    messages.append(first.choices[0].message.model_dump(exclude_none=True))
    messages.append({"role": "tool", "tool_call_id": call.id, "content": '{"sky": "clear", "degrees": 21}'})

    def ask(extra):
        return client.chat.completions.create(
            model="mini", messages=messages, tools=TOOLS, temperature=0, max_tokens=48, extra_body=extra
        )

    second = exact(ask)
    assert second.usage.prompt_tokens > first.usage.prompt_tokens
    assert second.usage.prompt_tokens_details.cached_tokens > 0


class Person(BaseModel):
    name: str
    age: int
    mood: Literal["happy", "sad"]


@pytest.mark.parametrize("temperature", [0, 1])
def test_structured_output_parses_as_the_model_of_pydantic(client, temperature):
    def ask(extra):
        return client.chat.completions.parse(
            model="mini",
            messages=[{"role": "user", "content": "Return a JSON object with name and age: Ada, 36."}],
            response_format=Person,
            temperature=temperature,
            seed=11,
            max_tokens=400,
            extra_body=extra,
        )

    try:
        reply = exact(ask)
    except openai.LengthFinishReasonError as error:
        pytest.fail(f"the reply did not end: {error}")
    person = reply.choices[0].message.parsed
    assert isinstance(person, Person) and person.mood in ("happy", "sad")


def test_choices_draw_with_seeds_in_a_row(client):
    def ask(extra):
        return chat(client, extra=extra, temperature=1, seed=20, n=3, max_tokens=24, logprobs=True)

    several = exact(ask)
    assert [c.index for c in several.choices] == [0, 1, 2]
    for i, choice in enumerate(several.choices):
        alone = chat(client, temperature=1, seed=20 + i, max_tokens=24, logprobs=True)
        assert alone.choices[0].message.content == choice.message.content
        assert alone.choices[0].logprobs == choice.logprobs


def test_a_stop_string_ends_the_reply_before_it(client):
    full = chat(client).choices[0].message.content
    stop = full.split()[5]
    reply = exact(lambda extra: chat(client, extra=extra, stop=[stop], logprobs=True))
    choice = reply.choices[0]
    assert (choice.message.content, choice.finish_reason) == (full[: full.index(stop)], "stop")
    assert len(choice.logprobs.content) == reply.usage.completion_tokens


def test_a_cap_ends_the_reply_at_its_count(client):
    reply = exact(lambda extra: chat(client, extra=extra, max_tokens=5))
    assert (reply.choices[0].finish_reason, reply.usage.completion_tokens) == ("length", 5)


@pytest.mark.parametrize("prompt", ["The sea is", ["The sea is", "A cat"], [11, 12, 13]])
def test_completions_are_the_same_drafted_and_serial(client, prompt):
    def ask(extra):
        reply = client.completions.create(
            model="mini", prompt=prompt, max_tokens=20, temperature=1, seed=3, logprobs=2, echo=True, extra_body=extra
        )
        dump = [c.model_dump() for c in reply.choices]
        return dump, usage(reply), reply.tokenfare["token_sha256"], reply

    *drafted, reply = ask(None)
    *serial, _ = ask(SERIAL)
    assert drafted == serial
    assert len(reply.choices) == (2 if isinstance(prompt[0], str) and isinstance(prompt, list) else 1)
    for choice in reply.choices:
        lists = choice.logprobs
        assert lists.token_logprobs[0] is None and all(value <= 0 for value in lists.token_logprobs[1:])
        count = len(lists.tokens)
        assert len(lists.token_logprobs) == len(lists.top_logprobs) == len(lists.text_offset) == count
    assert reply.usage.total_tokens == sum(len(c.logprobs.tokens) for c in reply.choices)


def test_a_streamed_completion_is_the_whole_one(client):
    more = {"model": "mini", "prompt": "The sea is", "max_tokens": 20, "temperature": 0, "logprobs": 1}
    whole = client.completions.create(**more)
    chunks = list(client.completions.create(**more, stream=True))
    choices = [c.choices[0] for c in chunks if c.choices]
    assert "".join(c.text for c in choices) == whole.choices[0].text
    values = [value for c in choices if c.logprobs for value in c.logprobs.token_logprobs]
    assert values == whole.choices[0].logprobs.token_logprobs
    assert choices[-1].finish_reason == whole.choices[0].finish_reason


def test_an_echo_alone_scores_the_prompt(client):
    whole = client.completions.create(model="mini", prompt="The sea is salty", max_tokens=0, echo=True, logprobs=0)
    assert (whole.choices[0].text, whole.usage.completion_tokens) == ("The sea is salty", 0)
    assert len(whole.choices[0].logprobs.token_logprobs) == whole.usage.prompt_tokens


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ],
)
def test_a_malformed_field_is_a_bad_request_that_names_it(client, more, param):
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, **more)
    assert refused.value.param == param


def test_a_prompt_beyond_the_context_says_both_numbers(client):
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, "sea " * 3000)
    assert refused.value.code == "context_length_exceeded"
    assert str(CONTEXT) in refused.value.message


def test_an_unknown_route_is_not_found(client):
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="mini", input="The sea")
