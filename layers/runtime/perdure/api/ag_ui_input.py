"""What an AG-UI client sends: `RunAgentInput`. What it has that we do not know is left aside, as the protocol asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from perdure.errors import InvalidRequestError

JsonObject = dict[str, Any]

MAX_RUN_ID = 200
"""Length of a run's id, in characters. Our own choice: with what we put in front it still is an idempotency key."""


class _Input(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class AgUiMessage(BaseModel):
    """A message that the client shows. Only the id, the role and what a user wrote are looked at."""

    model_config = ConfigDict(extra="allow", strict=True)

    id: str
    role: str
    content: Any = None


class ResumeEntry(_Input):
    """A decision: `payload` is `{approved, message?, editedArgs?}`, `{answer}` or `{value}`."""

    interrupt_id: Annotated[str, Field(alias="interruptId")]
    status: Literal["resolved", "cancelled"]
    payload: Any = None

    def decision(self, interrupt: Mapping[str, Any] | None) -> JsonObject:
        """Return it as `resolve_interrupt` takes it.

        Args:
            interrupt: What it is about, as the snapshot has it. None: not known; then it is taken as it is.

        Raises:
            InvalidRequestError: It is no decision on that.
        """
        if self.status == "cancelled":
            return {"approved": False}
        payload = self.payload if isinstance(self.payload, dict) else {}
        wanted = {"approval": "approved", "question": "answer", "input": "value"}
        kind = interrupt["kind"] if interrupt is not None else None
        if payload.get("approved") is not False and kind is not None and payload.get(wanted[kind]) is None:
            raise InvalidRequestError(
                f"the `payload` for interrupt {self.interrupt_id!r} needs `{wanted[kind]}`: it is of the kind {kind!r}"
            )
        decision = {name: self._checked(payload, name) for name in _TYPES if payload.get(name) is not None}
        if "editedArgs" in decision:
            decision["arguments"] = decision.pop("editedArgs")
            decision.setdefault("arguments_hash", (interrupt or {}).get("arguments_hash"))
        if payload.get("value") is not None:
            decision["value"] = payload["value"]
        if "answer" in decision and interrupt is not None:
            self._check_choice(decision["answer"], interrupt)
        return decision

    def _checked(self, payload: JsonObject, name: str) -> Any:
        value = payload[name]
        if type(value) is not _TYPES[name]:
            said = _JSON_NAMES[_TYPES[name]]
            raise InvalidRequestError(f"`{name}` in the `payload` for interrupt {self.interrupt_id!r} must be {said}")
        return value

    def _check_choice(self, answer: str, interrupt: Mapping[str, Any]) -> None:
        if not answer.strip():
            raise InvalidRequestError(f"the answer to interrupt {self.interrupt_id!r} is blank: send some text")
        choices = interrupt.get("choices")
        if choices and not interrupt.get("allows_free_text") and answer.strip() not in choices:
            raise InvalidRequestError(
                f"interrupt {self.interrupt_id!r} takes one of its {len(choices)} choices as its answer, word for word"
            )


_TYPES: dict[str, type] = {
    "approved": bool,
    "answer": str,
    "message": str,
    "editedArgs": dict,
    "arguments_hash": str,
}
_JSON_NAMES = {bool: "true or false", str: "a string", dict: "an object"}


class RunAgentInput(_Input):
    """One run: what the client shows, and what is new. `threadId` is the session's id."""

    thread_id: Annotated[str, Field(alias="threadId")]
    run_id: Annotated[str, Field(alias="runId", min_length=1, max_length=MAX_RUN_ID)]
    messages: list[AgUiMessage]
    parent_run_id: Annotated[str | None, Field(alias="parentRunId")] = None
    tools: Annotated[list[Any] | None, Field(description="Not called; the run warns of it.")] = None
    context: Annotated[list[Any] | None, Field(description="Not shown to the model; the run warns of it.")] = None
    forwarded_props: Annotated[Any, Field(alias="forwardedProps", description="`agent`: the agent's name.")] = None
    resume: list[ResumeEntry] | None = None

    def agent(self) -> str | None:
        """Return the agent that is asked for.

        Raises:
            InvalidRequestError: It is no text.
        """
        agent = self.forwarded_props.get("agent") if isinstance(self.forwarded_props, dict) else None
        if agent is not None and not isinstance(agent, str):
            raise InvalidRequestError("`agent` in `forwardedProps` is the name of an agent, a string")
        return agent

    def user_message(self) -> AgUiMessage | None:
        """Return the last message of the user."""
        return next((message for message in reversed(self.messages) if message.role == "user"), None)

    def left_aside(self) -> list[JsonObject]:
        """Return what of the input this server does not use: `{code, message}` each."""
        warnings: list[JsonObject] = []
        if self.tools:
            warnings.append(
                {
                    "code": "tools_not_supported",
                    "message": f"{len(self.tools)} front-end tools were left aside: the agent calls its own tools only",
                }
            )
        if self.context:
            warnings.append(
                {
                    "code": "context_not_supported",
                    "message": f"{len(self.context)} entries of `context` were left aside: put them in the message",
                }
            )
        return warnings


def text_and_files(message: AgUiMessage) -> tuple[str, list[JsonObject], int]:
    """Return what a user wrote, the files that go with it, and how many parts can't be used.

    A file is known by its URL or its provider's handle, which the agent's file resolver gets as its reference.

    Raises:
        InvalidRequestError: It is neither text nor a list of parts.
    """
    if isinstance(message.content, str):
        return message.content, [], 0
    if not isinstance(message.content, list) or not all(isinstance(part, dict) for part in message.content):
        raise InvalidRequestError(f"the content of message {message.id!r} is neither a string nor a list of parts")
    texts: list[str] = []
    files: list[JsonObject] = []
    unused = 0
    for part in message.content:
        source = part.get("source")
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif (
            isinstance(source, dict) and source.get("type") in ("url", "file") and isinstance(source.get("value"), str)
        ):
            file = {"reference": source["value"], "media_type": source.get("mimeType")}
            files.append({name: value for name, value in file.items() if isinstance(value, str)})
        else:
            unused += 1
    return "\n".join(texts), files, unused
