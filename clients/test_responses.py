"""The openai package's Responses against the server: equal to chats, drafted, serial and streamed."""

import json

import openai
import pytest
from pydantic import BaseModel

QUESTION = "What is a GPU?"
WEATHER = "What is the weather in Paris?"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Name of the city"}},
    "required": ["city"],
}
FUNCTION = {"name": "get_weather", "description": "Get the current weather of a city.", "parameters": SCHEMA}
TOOLS = [{"type": "function", **FUNCTION}]


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0) as client:
        yield client


def create(client, given=QUESTION, extra=None, **more):
    more = {"temperature": 0, "max_output_tokens": 96, **more}
    return client.responses.create(model="mini", input=given, extra_body=extra, **more)


def sha(reply):
    return reply.tokenfare["token_sha256"]


def without_ids(item):
    data = item.model_dump(exclude={"id", "call_id", "parsed_arguments"})
    for part in data.get("content") or []:
        part.pop("parsed", None)
    return data


@pytest.mark.parametrize("effort", [None, "low"])
def test_a_response_is_its_chat_drafted_serial_and_streamed(client, effort):
    reasoning = {"reasoning": {"effort": effort}} if effort else {}
    whole = create(client, instructions="Be brief.", **reasoning)
    serial = create(client, instructions="Be brief.", extra={"draft": False}, **reasoning)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    thinking = {"thinking": True, "reasoning_effort": effort} if effort else None
    chat = client.chat.completions.create(
        model="mini", messages=messages, temperature=0, max_tokens=96, extra_body=thinking
    )
    assert sha(whole) == sha(serial) == sha(chat)
    assert serial.tokenfare["drafted"] == 0
    assert whole.output_text == (chat.choices[0].message.content or "")
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (
        chat.usage.prompt_tokens,
        chat.usage.completion_tokens,
    )
    details = chat.usage.completion_tokens_details
    assert whole.usage.output_tokens_details.reasoning_tokens == details.reasoning_tokens
    kinds = [item.type for item in whole.output]
    assert kinds[0] == ("reasoning" if effort else "message")
    if effort:
        assert whole.output[0].content[0].text == chat.choices[0].message.reasoning_content

    events = list(create(client, instructions="Be brief.", stream=True, **reasoning))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    last = events[-1].response
    assert events[-1].type == f"response.{last.status}"
    assert [without_ids(item) for item in last.output] == [without_ids(item) for item in whole.output]
    assert sha(last) == sha(whole)
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas == whole.output_text


def test_a_function_is_called_streamed_and_answered(client):
    with client.responses.stream(
        model="mini", input=WEATHER, tools=TOOLS, temperature=0, max_output_tokens=96
    ) as stream:
        parts = [event.delta for event in stream if event.type == "response.function_call_arguments.delta"]
        reply = stream.get_final_response()
    whole = create(client, WEATHER, tools=TOOLS)
    assert sha(whole) == sha(reply)
    (call,) = reply.output
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "get_weather", {"city": "Paris"})
    assert len(parts) > 1 and "".join(parts) == call.arguments
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny, 25 degrees"}
    kept = create(client, [result], tools=TOOLS, previous_response_id=reply.id)
    items = [{"role": "user", "content": WEATHER}, call.model_dump(exclude={"parsed_arguments"}), result]
    given = create(client, items, tools=TOOLS, store=False)
    assert kept.output_text and sha(kept) == sha(given)


def test_a_demanded_function_is_called(client):
    reply = create(client, "Who are you?", tools=TOOLS, tool_choice={"type": "function", "name": "get_weather"})
    (call,) = reply.output
    assert call.name == "get_weather" and isinstance(json.loads(call.arguments)["city"], str)


def test_text_is_parsed_as_its_class(client):
    class City(BaseModel):
        name: str
        large: bool

    reply = client.responses.parse(
        model="mini", input="Tell me of Paris as JSON.", text_format=City, temperature=0, max_output_tokens=96
    )
    assert isinstance(reply.output_parsed, City)


def test_a_response_is_kept_until_it_is_deleted(client):
    reply = create(client, max_output_tokens=3)
    assert (reply.status, reply.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    kept = client.responses.retrieve(reply.id)
    assert kept.model_dump() == reply.model_dump()
    client.responses.delete(reply.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(reply.id)
    with pytest.raises(openai.BadRequestError) as error:
        create(client, previous_response_id=reply.id)
    assert error.value.code == "previous_response_not_found"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"given": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
        ({"given": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0].type"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"background": True}, "background"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
    ],
)
def test_what_is_refused_is_named(client, body, field):
    with pytest.raises(openai.BadRequestError) as error:
        create(client, **body)
    assert error.value.param == field
