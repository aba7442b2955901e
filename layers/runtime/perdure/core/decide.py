"""`decide`: the one pure function through which everything happens to a session."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from perdure.core import commands as c
from perdure.core import control, grants, inputs, parks, schedules, tasks, waits
from perdure.core import control_commands as cc
from perdure.core import schedule_commands as sc
from perdure.core import wait_commands as wc
from perdure.core.admission import on_send_input
from perdure.core.decision import Decision, Draft
from perdure.core.head import Head
from perdure.core.hold import on_credential_changed
from perdure.core.interrupts import on_resolve_interrupt, on_timer_fired
from perdure.core.limits import MAX_HEAD_BYTES
from perdure.core.models import on_model_finished, on_model_waits
from perdure.core.questions import on_tool_asked
from perdure.core.recovery import on_attempt_lost, on_attempt_put_off
from perdure.core.seeding import on_seed_history, on_start_session
from perdure.core.settings import on_update_settings
from perdure.core.size import head_bytes
from perdure.core.tools import on_tool_finished, on_tool_started, on_tools_finished
from perdure.errors import NotFoundError, TooLargeError

_TRANSITIONS: dict[type[Any], tuple[str, Callable[[Draft, Any], Decision]]] = {
    c.SendInput: ("send_input", on_send_input),
    c.ModelFinished: ("model_finished", on_model_finished),
    c.ModelWaits: ("model_waits", on_model_waits),
    c.ToolStarted: ("tool_started", on_tool_started),
    c.ToolFinished: ("tool_finished", on_tool_finished),
    c.ToolsFinished: ("tools_finished", on_tools_finished),
    c.AttemptLost: ("attempt_lost", on_attempt_lost),
    c.AttemptPutOff: ("attempt_put_off", on_attempt_put_off),
    c.ResolveInterrupt: ("resolve_interrupt", on_resolve_interrupt),
    c.TimerFired: ("timer_fired", on_timer_fired),
    c.StopTurn: ("stop_turn", control.on_stop_turn),
    cc.EditMessage: ("edit_message", control.on_edit_message),
    cc.MoveMessage: ("move_message", control.on_move_message),
    cc.RemoveMessage: ("remove_message", control.on_remove_message),
    cc.DeliverMessage: ("deliver_message", control.on_deliver_message),
    cc.PauseSession: ("pause_session", control.on_pause_session),
    cc.ResumeSession: ("resume_session", control.on_resume_session),
    cc.RetryTurn: ("retry_turn", control.on_retry_turn),
    cc.CredentialChanged: ("credential_changed", on_credential_changed),
    cc.UpdateSettings: ("update_settings", on_update_settings),
    cc.CloseSession: ("close_session", control.on_close_session),
    cc.SeedHistory: ("seed_history", on_seed_history),
    cc.RevokeGrant: ("revoke_grant", grants.on_revoke_grant),
    cc.RequestValue: ("request_value", inputs.on_request_value),
    cc.WithdrawRequest: ("withdraw_request", inputs.on_withdraw_request),
    sc.SetSchedule: ("set_schedule", schedules.on_set_schedule),
    sc.CancelSchedule: ("cancel_schedule", schedules.on_cancel_schedule),
    wc.ToolAsked: ("tool_asked", on_tool_asked),
    wc.StepRecorded: ("step_recorded", parks.on_step_recorded),
    wc.OutputShown: ("output_shown", parks.on_output_shown),
    wc.ToolParked: ("tool_parked", parks.on_tool_parked),
    wc.TaskStarted: ("task_started", tasks.on_task_started),
    wc.TaskLooked: ("task_looked", tasks.on_task_looked),
    wc.TaskCancelled: ("task_cancelled", tasks.on_task_cancelled),
    wc.EventArrived: ("event_arrived", parks.on_event_arrived),
    wc.ResultBrought: ("result_brought", parks.on_result_brought),
    wc.SkipWait: ("skip_wait", waits.on_skip_wait),
    wc.ChangeWait: ("change_wait", waits.on_change_wait),
    wc.CancelWait: ("cancel_wait", waits.on_cancel_wait),
    cc.StartSession: ("start_session", on_start_session),
}


def decide(head: Head, command: c.Command, *, now: datetime, commit_id: str, taker: c.Taker | None = None) -> Decision:
    """Turn a command into a decision. Pure: the same arguments always give the same decision.

    Args:
        head: The session as it is; `Head()` for one that was never written.
        now: The time of the decision, in UTC.
        commit_id: The command's id, the same through all its retries.
        taker: Who would go on with the next step at once; None: nobody.

    Raises:
        RequestError: The command can't be carried out; nothing changes. Its class and `code` say why.
    """
    kind, transition = _TRANSITIONS[type(command)]
    if not head.exists and not isinstance(command, c.BEGINS_A_SESSION):
        if isinstance(command, c.UserCommand):
            raise NotFoundError("this session was never written: send it a message first")
        return Decision.unchanged(head)  # a step of a purged life

    decision = transition(Draft(head, now=now, commit_id=commit_id, kind=kind, taker=taker), command)
    receipts = getattr(command, "receipts", ())
    if decision.entry is None and receipts:  # remember the answer, so that the same key gives it again
        draft = Draft(head, now=now, commit_id=commit_id, kind=kind)
        return draft.decision(decision.reply, receipts)
    if (
        isinstance(command, (c.SendInput, cc.EditMessage, sc.SetSchedule))
        and (decision.head.inbox or decision.head.schedules)
        and head_bytes(decision.head) > MAX_HEAD_BYTES
    ):
        raise TooLargeError(
            f"this session already holds {len(head.inbox)} queued messages and is full: "
            "wait for its turn to end, or stop it"
        )
    return decision
