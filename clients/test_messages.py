"""The anthropic package against the server: equal to chats, drafted, serial and streamed."""

import anthropic
import pytest
from pydantic import BaseModel

QUESTION = "What is a GPU?"
WEATHER = "What is the weather in Paris?"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Name of the city"}},
    "required": ["city"],
}
ABOUT = {"name": "get_weather", "description": "Get the current weather of a city."}
TOOLS = [{**ABOUT, "input_schema": SCHEMA}]


@pytest.fixture(scope="module")
def client(server):
    with anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0) as client:
        yield client


def user(content):
    return {"role": "user", "content": content}


def asked(messages, extra=None, **more):
    return {
        "model": "mini",
        "messages": messages,
        "max_tokens": 96,
        "extra_body": {"temperature": 0, **(extra or {})},
        **more,
    }


def sha(reply):
    return reply.tokenfare["token_sha256"]


def blocks(message):
    return [block.model_dump(exclude={"id", "parsed_output"}) for block in message.content]


def prompt(usage):
    return usage.input_tokens + usage.cache_read_input_tokens


@pytest.mark.parametrize("thinking", [False, True])
def test_a_message_is_its_chat_drafted_serial_and_streamed(client, server, thinking):
    more = {"thinking": {"type": "enabled", "budget_tokens": 1024}} if thinking else {}
    whole = client.messages.create(**asked([user(QUESTION)], system="Be brief.", **more))
    serial = client.messages.create(**asked([user(QUESTION)], {"draft": False}, system="Be brief.", **more))
    chat = server.post(
        "/v1/chat/completions",
        {
            "messages": [{"role": "system", "content": "Be brief."}, user(QUESTION)],
            "temperature": 0,
            "max_tokens": 96,
            "thinking": thinking,
        },
    )
    assert sha(whole) == sha(serial) == chat["tokenfare"]["token_sha256"]
    assert blocks(whole) == blocks(serial)
    assert serial.tokenfare["drafted"] == 0
    assert whole.content[0].type == ("thinking" if thinking else "text")
    assert (prompt(whole.usage), whole.usage.output_tokens) == (
        chat["usage"]["prompt_tokens"],
        chat["usage"]["completion_tokens"],
    )
    count = client.messages.count_tokens(model="mini", messages=[user(QUESTION)], system="Be brief.", **more)
    assert count.input_tokens == prompt(whole.usage)

    with client.messages.stream(**asked([user(QUESTION)], system="Be brief.", **more)) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert blocks(streamed) == blocks(whole)
    assert (streamed.stop_reason, prompt(streamed.usage)) == (whole.stop_reason, prompt(whole.usage))
    assert streamed.usage.output_tokens == whole.usage.output_tokens


def test_a_tool_is_used_streamed_and_answered(client):
    with client.messages.stream(**asked([user(WEATHER)], tools=TOOLS)) as stream:
        parts = [event.partial_json for event in stream if event.type == "input_json"]
        reply = stream.get_final_message()
    (use,) = reply.content
    assert reply.stop_reason == "tool_use" and len(parts) > 1
    assert (use.type, use.name, use.input) == ("tool_use", "get_weather", {"city": "Paris"})
    assert blocks(client.messages.create(**asked([user(WEATHER)], tools=TOOLS))) == blocks(reply)
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "sunny, 25 degrees"}
    turns = [user(WEATHER), {"role": "assistant", "content": reply.content}, user([result])]
    answer = client.messages.create(**asked(turns, tools=TOOLS))
    assert answer.content[0].text and answer.stop_reason == "end_turn"


def test_thinking_comes_back_in_the_history(client):
    thinking = {"type": "enabled", "budget_tokens": 1024}
    first = client.messages.create(**asked([user("What is 47 + 38?")], thinking=thinking))
    turns = [user("What is 47 + 38?"), {"role": "assistant", "content": first.content}, user("And 1 + 1?")]
    redacted = [{"type": "redacted_thinking", "data": "x"}, *[b for b in first.content if b.type == "text"]]
    without = [turns[0], {"role": "assistant", "content": redacted}, turns[2]]
    # Reasoning of an earlier turn is not shown to the model.
    assert sha(client.messages.create(**asked(turns))) == sha(client.messages.create(**asked(without)))


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
def test_a_demanded_tool_is_used(client, choice):
    choice["disable_parallel_tool_use"] = True
    reply = client.messages.create(**asked([user("Who are you?")], tools=TOOLS, tool_choice=choice))
    (use,) = reply.content
    assert use.name == "get_weather" and isinstance(use.input["city"], str)


def test_a_stop_sequence_is_named(client):
    question = [user("What is the capital of France?")]
    reply = client.messages.create(**asked(question, stop_sequences=["Rome", "Paris"]))
    assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", "Paris")
    assert "Paris" not in reply.content[0].text
    short = client.messages.create(**asked(question, extra={"max_tokens": 2}))
    assert (short.stop_reason, short.usage.output_tokens) == ("max_tokens", 2)


def test_text_is_parsed_as_its_class(client):
    class City(BaseModel):
        name: str
        large: bool

    reply = client.messages.parse(**asked([user("Tell me of Paris as JSON.")], output_format=City))
    assert isinstance(reply.parsed_output, City)


def test_refusals_are_typed(client):
    image = [{"type": "image", "source": {"type": "url", "url": "x"}}]
    for body, field in [
        (asked([user(image)]), "messages[0].content[0].type"),
        (asked([user("a")], extra={"max_tokens": -1}), "max_tokens"),
        (asked([]), "messages"),
    ]:
        with pytest.raises(anthropic.BadRequestError) as error:
            client.messages.create(**body)
        assert error.value.type == "invalid_request_error"
        assert error.value.api_message.startswith(field + ":")
    with pytest.raises(anthropic.NotFoundError) as error:
        client.messages.batches.list()
    assert error.value.type == "not_found_error"
