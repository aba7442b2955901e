"""What the chat-completions client sends, and with which address, key and connections."""

import asyncio
import json

import httpx
import pytest

from perdure.errors import ConfigurationError
from perdure.models import OpenAIChatModel
from tests.unit.models.builders import a_model, a_request, chunk, collect, failure_of, respond, sse

WHOLE = sse(chunk({"content": "hi"}), chunk(finish="stop"))


class Recorder:
    """Answers every request in the same way and keeps it."""

    def __init__(self, content: bytes = WHOLE) -> None:
        self.requests: list[httpx.Request] = []
        self._content = content

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self._content)

    @property
    def body(self) -> dict:
        return json.loads(self.requests[-1].content)


async def test_address_and_key_are_read_from_the_environment_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Recorder()
    model = a_model(provider, base_url=None)

    for place in ("one", "two"):
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://{place}.test/v1/")
        monkeypatch.setenv("OPENAI_API_KEY", f"key-{place}\n")
        await collect(model)

    assert [(str(r.url), r.headers["authorization"]) for r in provider.requests] == [
        ("http://one.test/v1/chat/completions", "Bearer key-one"),
        ("http://two.test/v1/chat/completions", "Bearer key-two"),
    ]


async def test_arguments_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://env.test/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "env")
    provider = Recorder()

    await collect(a_model(provider, api_key="mine", base_url="https://mine.test/openai/v1?api-version=2"))

    assert str(provider.requests[0].url) == "https://mine.test/openai/v1/chat/completions?api-version=2"
    assert provider.requests[0].headers["authorization"] == "Bearer mine"


async def test_without_a_key_no_authorization_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    provider = Recorder()

    await collect(a_model(provider))

    assert "authorization" not in provider.requests[0].headers


async def test_an_address_that_is_none_is_refused_early_or_fails_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:8080/v1")

    with pytest.raises(ConfigurationError, match="base_url"):
        OpenAIChatModel("m", base_url="localhost:8080/v1")
    error = await failure_of(a_model(Recorder(), base_url=None))

    assert (error.kind, error.retryable) == ("unavailable", False)
    assert "OPENAI_BASE_URL" in error.message


async def test_a_key_that_can_not_be_a_header_is_an_error_that_hides_it() -> None:
    error = await failure_of(a_model(Recorder(), api_key="sé\ncret"))

    assert error.kind == "auth"
    assert "cret" not in error.message


async def test_reading_and_waiting_for_a_connection_have_no_limit_of_their_own() -> None:
    provider = Recorder()

    await collect(a_model(provider))

    limits = provider.requests[0].extensions["timeout"]
    assert (limits["read"], limits["write"], limits["pool"]) == (None, None, None)


async def test_settings_of_the_request_win_over_those_of_the_model() -> None:
    provider = Recorder()

    await collect(a_model(provider, settings={"temperature": 0, "seed": 7}), a_request(settings={"temperature": 1}))

    assert (provider.body["temperature"], provider.body["seed"]) == (1, 7)


async def test_settings_go_out_in_the_words_of_the_server() -> None:
    provider = Recorder()
    settings = {"max_output_tokens": 50, "reasoning_effort": "low", "service_tier": "fast"}

    await collect(a_model(provider, base_url="https://api.openai.com/v1"), a_request(settings=settings))
    to_openai = provider.body
    await collect(a_model(provider, output_limit_name="max_new_tokens"), a_request(settings=settings))

    assert (to_openai["max_completion_tokens"], to_openai["service_tier"]) == (50, "priority")
    assert provider.body["max_new_tokens"] == 50
    assert "service_tier" not in provider.body


async def test_a_default_of_the_client_can_be_taken_out() -> None:
    provider = Recorder()
    model = a_model(provider, settings={"temperature": 0, "stream_options": None})

    await collect(model, a_request(settings={"temperature": None}))

    assert not {"temperature", "stream_options"} & provider.body.keys()


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [({"settings": {"temperature": "hot"}}, "temperature must be"), ({"context_window": 0}, "context_window")],
)
def test_a_client_that_is_set_up_wrongly_is_refused(wrong: dict, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        a_model(WHOLE, **wrong)


@pytest.mark.parametrize("name", ["messages", "model", "n", "stream", "tools"])
async def test_a_setting_that_belongs_to_the_client_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        a_model(WHOLE, settings={name: 1})
    error = await failure_of(a_model(WHOLE), a_request(settings={name: 1}))

    assert (error.kind, error.retryable) == ("invalid", False)


@pytest.mark.parametrize("value", [object(), float("nan")])
async def test_a_setting_that_is_no_json_is_an_invalid_request(value: object) -> None:
    assert (await failure_of(a_model(WHOLE), a_request(settings={"x": value}))).kind == "invalid"


async def test_every_character_is_sent_as_it_is_and_a_lone_surrogate_is_replaced() -> None:
    provider = Recorder()

    await collect(a_model(provider), a_request(text="nul \x00 é 🚀 \ud83d"))

    assert provider.body["messages"][0]["content"] == "nul \x00 é 🚀 \ufffd"


def test_the_provider_names_its_host_unless_it_is_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    assert OpenAIChatModel("m").provider == "openai-chat"
    assert OpenAIChatModel("m", base_url="http://me:pw@x.test:81/v1").provider == "openai-chat:x.test:81"


def test_one_model_serves_one_event_loop_after_another_and_keeps_only_the_last() -> None:
    model = a_model(WHOLE)
    loops = [asyncio.new_event_loop() for _ in range(3)]
    texts = []

    for loop in loops:
        texts.append(loop.run_until_complete(respond(model)).text)
        loop.close()

    assert texts == ["hi", "hi", "hi"]
    assert list(model._clients) == loops[-1:]


async def test_a_closed_model_opens_again_at_the_next_call() -> None:
    model = a_model(WHOLE)
    await collect(model)

    await model.aclose()

    assert (await respond(model)).text == "hi"
