"""Approvals given ahead: one tool, with the same values in some fields, for a while, in this session alone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from perdure.core.codec import format_time
from perdure.core.commands import GrantScope, RequestedCall
from perdure.core.decision import Decision, Draft
from perdure.core.head import Call, Grant
from perdure.core.ids import content_hash
from perdure.core.limits import MAX_GRANT, MAX_GRANT_USES, MAX_GRANTS
from perdure.core.values import replace
from perdure.errors import InvalidRequestError, NotFoundError

if TYPE_CHECKING:
    from perdure.core.control_commands import RevokeGrant

JsonObject = dict[str, Any]


def scope_match(fields: tuple[str, ...], arguments: JsonObject) -> str:
    """Return the hash of what a grant compares: the values of some fields; one that is absent counts as null."""
    return content_hash({name: arguments.get(name) for name in fields})


def grant(draft: Draft, call: Call, scope: GrantScope) -> JsonObject:
    """Approve calls like this one ahead; returns what the event of the approval tells of it.

    Raises:
        InvalidRequestError: It would last too long, or be one too many.
    """
    if not timedelta(0) < scope.lasts <= MAX_GRANT:
        raise InvalidRequestError(f"an approval ahead lasts up to {MAX_GRANT.days} days, not {scope.lasts}")
    if scope.max_uses is not None and not 1 <= scope.max_uses <= MAX_GRANT_USES:
        raise InvalidRequestError(f"an approval ahead holds once at least, and at most {MAX_GRANT_USES} times")
    valid = tuple(each for each in draft.head.grants if draft.now < each.expires_at)
    if len(valid) >= MAX_GRANTS:
        raise InvalidRequestError(f"this session has {MAX_GRANTS} approvals ahead, the most there may be: revoke one")
    made = Grant(
        grant_id=draft.new_id("grant"),
        tool_name=call.tool_name,
        fields=scope.fields,
        match=scope.match,
        expires_at=draft.now + scope.lasts,
        uses_left=scope.max_uses,
    )
    draft.head = replace(draft.head, grants=(*valid, made))
    told: JsonObject = {
        "grant_id": made.grant_id,
        "fields": list(scope.fields),
        "expires_at": format_time(made.expires_at),
    }
    return told if scope.max_uses is None else told | {"max_uses": scope.max_uses}


def use_grant(draft: Draft, call_id: str, requested: RequestedCall) -> bool:
    """Let a call run by an approval that was given ahead, if there is one for it. That is an event of its own."""
    if requested.arguments is None:
        return False
    for each in draft.head.grants:
        if each.tool_name != requested.tool_name or draft.now >= each.expires_at or each.uses_left == 0:
            continue
        if scope_match(each.fields, requested.arguments) != each.match:
            continue
        used = replace(each, uses_left=each.uses_left - 1) if each.uses_left is not None else each
        left = tuple(used if other is each else other for other in draft.head.grants)
        draft.head = replace(draft.head, grants=tuple(g for g in left if g.uses_left != 0))
        payload = {"tool_call_id": call_id, "tool_name": requested.tool_name, "grant_id": each.grant_id}
        draft.event("approval.by_grant", payload | {"uses_left": used.uses_left})
        return True
    return False


def on_revoke_grant(draft: Draft, command: RevokeGrant) -> Decision:
    """Ask a person again from now on.

    Raises:
        NotFoundError: `grant_not_found`: there is none of this id, or it is used up or over.
    """
    if not any(each.grant_id == command.grant_id for each in draft.head.grants):
        raise NotFoundError(f"this session has no approval ahead {command.grant_id!r}", code="grant_not_found")
    left = tuple(each for each in draft.head.grants if each.grant_id != command.grant_id)
    draft.head = replace(draft.head, grants=left)
    by = command.actor.told()
    draft.event("approval.revoked", {"grant_id": command.grant_id, "actor": by})
    return draft.decision({"result": "recorded"}, command.receipts)
