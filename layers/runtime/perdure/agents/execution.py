"""Runs the body of a tool and turns what it returns into the text that the model sees."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from perdure.errors import ToolExecutionError
from perdure.models.surrogates import mended


async def run_body(function: Callable[..., Any], arguments: dict[str, Any], *values: Any) -> Any:
    """Call a tool's function: an `async def` on this loop, anything else in a thread of its own.

    What the function raises comes out, but a `SystemExit`, a cancellation of its own making and, from a thread,
    whatever else is no `Exception` come out as `RuntimeError`: they must end neither the worker nor the step.
    """
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*values, **arguments)
        result = await _in_own_thread(partial(function, *values, **arguments))
        return await result if inspect.isawaitable(result) else result
    except SystemExit as error:
        raise RuntimeError("the tool tried to end the process") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            raise RuntimeError("the tool cancelled itself") from error
        raise


async def _in_own_thread(work: Callable[[], Any]) -> Any:
    """Run a blocking call in a new daemon thread, with this task's context variables.

    Not in the loop's pool (`asyncio.to_thread`): a handful of slow tools would take all its threads from the store,
    and a tool that hangs would keep the process from ending. Cancelling stops the waiting, not the thread.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def run() -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            result = context.run(work)
        except (StopIteration, KeyboardInterrupt, GeneratorExit) as error:
            # A future refuses the first, and the step would wait for ever; the others would end loop or step.
            failure = RuntimeError(f"the tool raised {type(error).__name__}")
            failure.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - all of it belongs to whoever awaits
            failure = error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=run, name="perdure-tool", daemon=True).start()
    return await future


def output_text(tool_name: str, result: Any) -> str:
    """Return a tool's result as the model sees it; never empty.

    A text is the output as it is. Anything else is JSON as `json.dumps` writes it, with characters unescaped:
    models, dataclasses, dates and the like as pydantic writes them; None as `null`; NaN and the infinities, which
    JSON does not have, as `null`, too; the empty text as `""`. A lone surrogate becomes U+FFFD.

    Raises:
        ToolExecutionError: The result can't be written as JSON. The text says that the tool ran.
    """
    if isinstance(result, str):
        text = str.__str__(result)  # a text enum's value rather than its name
        return mended(text) if text else '""'
    try:
        return mended(_dumps(result))
    except (TypeError, ValueError, RecursionError):
        pass  # not plain JSON, or NaN in it
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        plain = json.dumps(to_jsonable_python(result))
        return mended(_dumps(json.loads(plain, parse_constant=lambda _: None)))  # NaN and its like become null
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        raise ToolExecutionError(
            f"the tool {tool_name} ran, but returned something that is no JSON ({type(result).__name__}): "
            "do not assume that it did nothing"
        ) from error


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
