"""Where each limit is tested one under and one over, or why it can't be. `test_limits.py` keeps the list complete."""

from __future__ import annotations

HERE = "audit/test_limits.py"
WAITING = "audit/test_waiting_limits.py"

LIMITS: dict[str, tuple[str, ...] | str] = {
    # --- aws ---------------------------------------------------------------------------------------------------------
    "MAX_ITEM_BYTES": (
        f"{HERE}::test_an_item_over_400_kb_is_refused_and_the_largest_that_we_write_is_not",
        "unit/aws/test_bodies.py::test_no_item_ever_comes_near_the_limit",
    ),
    "MAX_PARTITION_KEY_BYTES": (
        "unit/aws/test_items.py::test_a_tenant_whose_key_would_be_too_long_is_refused",
        f"{HERE}::test_the_table_takes_a_partition_key_of_2048_bytes_and_no_longer_one",
    ),
    "MAX_BATCH_GET": (f"{HERE}::test_a_hundred_keys_are_read_at_once_and_one_more_takes_a_second_call",),
    "MAX_TAIL_BYTES": ("unit/aws/test_bodies.py::test_a_tail_that_would_grow_over_its_limit_is_settled_first",),
    "SETTLE_TAIL_BYTES": ("unit/aws/test_settling.py::test_it_is_time_to_settle_when_the_tail_is_over_four_kilobytes",),
    "MAX_INLINE_ENTRY_BYTES": (
        "unit/aws/test_bodies.py::test_an_entry_goes_where_its_encoded_bytes_fit_and_reads_back_the_same",
    ),
    "MAX_BODY_ITEM_BYTES": (
        "unit/aws/test_bodies.py::test_an_entry_goes_where_its_encoded_bytes_fit_and_reads_back_the_same",
    ),
    "MAX_OBJECT_BYTES": ("unit/aws/test_bodies.py::test_an_entry_that_fits_nowhere_is_refused_and_nothing_is_written",),
    "DUE_BUCKETS": (f"{HERE}::test_sessions_use_all_sixteen_due_buckets_and_the_sweep_reads_each_of_them",),
    "DUE_GRAIN": ("unit/aws/test_items.py::test_due_times_are_rounded_up_to_whole_minutes",),
    "LEASE_ITEM_TTL": ("unit/aws/test_leases.py::test_a_lease_past_its_ttl_counts_as_absent_though_it_is_still_there",),
    "RESULT_TTL": (f"{HERE}::test_an_outcome_waits_a_day_for_its_commit",),
    "PROGRESS_TTL": (f"{HERE}::test_progress_can_be_read_for_a_day",),
    "MAX_PROGRESS_BYTES": (
        "contracts/test_progress_budget.py::test_what_open_attempts_keep_is_bounded_and_a_gap_is_told",
    ),
    "PROGRESS_SHARE_BYTES": (
        "contracts/test_progress_budget.py::test_what_open_attempts_keep_is_bounded_and_a_gap_is_told",
    ),
    "MAX_UNSENT_BATCHES": ("unit/aws/test_live.py::test_progress_that_can_not_be_written_for_long_ends_with_a_gap",),
    "MAX_PROGRESS_ITEM_BYTES": (f"{HERE}::test_a_progress_event_of_64_kb_is_kept_and_a_larger_one_left_out",),
    "SUBSCRIPTION_TTL": ("unit/aws/test_delivery.py::test_a_subscription_ends_after_three_hours",),
    "TICKET_LIFETIME": (
        "unit/aws/test_tickets.py::test_a_ticket_is_good_for_a_minute_though_it_is_still_in_the_table",
    ),
    "MAX_MESSAGE_BYTES": (
        f"{HERE}::test_a_queue_takes_a_message_of_one_mebibyte_and_no_larger_one",
        "unit/aws/test_queues.py::test_a_message_carries_ids_only_and_stays_small",
    ),
    "MAX_DELAY": (
        f"{HERE}::test_a_queue_takes_a_delay_of_900_seconds_and_no_longer_one",
        "unit/aws/test_queues.py::test_a_delay_is_rounded_up_and_never_over_the_limit",
    ),
    "MAX_GROUP_ID": "no emulator enforces it, and ours have 64 characters whatever a tenant is called: "
    "unit/aws/test_queues.py::test_a_group_is_named_legally_and_differs_between_tenants",
    "MAX_SCHEDULE_NAME": "no emulator enforces it, and ours have 62 characters whatever a timer is called: "
    "unit/aws/test_queues.py::test_a_schedule_has_one_legal_name; the number is held against botocore's here",
    "MAX_STREAM": ("unit/aws/test_settings.py::test_a_stream_lasts_no_longer_than_its_function",),
    "SCHEDULE_LEAD": (
        "unit/aws/test_queues.py::test_a_schedule_fires_fifteen_minutes_early_once_and_deletes_itself",
        f"{HERE}::test_the_rest_of_a_schedules_wait_fits_into_one_delay",
    ),
    "MIN_SCHEDULE_AHEAD": ("unit/aws/test_queues.py::test_a_schedule_is_made_only_for_what_a_delay_does_not_reach",),
    "DEADLINE_MARGIN": (
        "unit/aws/test_handlers.py::test_a_step_runs_with_its_ids_and_ends_thirty_seconds_before_its_function",
        "handlers/test_time_on_aws.py::test_a_step_ends_itself_before_its_function_would_be_killed",
    ),
    # --- core --------------------------------------------------------------------------------------------------------
    "MAX_HEAD_BYTES": ("unit/core/test_admission.py::test_a_session_that_is_full_refuses_messages_and_nothing_else",),
    "MAX_CALLS_PER_RESPONSE": (f"{HERE}::test_sixty_four_calls_of_a_response_run_and_the_next_does_not",),
    "MAX_PARALLEL_WRITES": (f"{HERE}::test_eight_writes_run_at_a_time_and_the_ninth_waits",),
    "MAX_MODEL_CALLS_PER_TURN": (f"{HERE}::test_a_turn_has_a_hundred_model_calls_and_then_has_to_answer",),
    "MAX_ATTEMPTS": (f"{HERE}::test_a_step_has_three_attempts_and_no_fourth",),
    "ATTEMPT_WINDOW": (f"{HERE}::test_an_attempt_begins_within_thirty_minutes_of_the_first_and_not_at_their_end",),
    "LEASE_DURATION": (
        "unit/steps/test_recover.py::test_the_sweep_leaves_a_living_worker_alone",
        "unit/steps/test_recover.py::test_the_sweep_replaces_a_dead_worker_with_the_next_attempt",
    ),
    "LEASE_RENEWAL": "a period and no bound: that it is kept to is "
    "unit/steps/test_run_model.py::test_a_long_call_keeps_its_lease; that six renewals fit into a lease is here",
    "LEASE_GRACE": (
        "contracts/test_lease_contract.py::test_an_attempt_that_somebody_holds_is_not_revoked_before_the_grace_is_over",
        "contracts/test_lease_contract.py::test_an_expired_attempt_is_revoked_and_its_worker_must_stop",
    ),
    "START_LEASE": (
        "contracts/test_session_list_contract.py::test_a_session_is_due_once_its_start_lease_is_over_and_not_before",
    ),
    "TIMER_GRACE": (f"{HERE}::test_the_sweep_looks_after_a_timer_a_minute_after_it_was_due",),
    "TOOL_RETRY_DELAYS": (
        "unit/core/test_tools.py::test_an_unexpected_error_is_tried_again_after_one_and_two_seconds",
    ),
    "MAX_ERROR_CHARACTERS": (f"{HERE}::test_a_reason_of_a_thousand_characters_is_kept_whole_and_a_longer_one_cut",),
    "PREVIEW_CHARACTERS": (f"{HERE}::test_a_preview_shows_120_characters_and_no_more",),
    "MAX_SESSION_ID": (
        "unit/core/test_ids.py::test_a_session_id_may_be",
        "unit/core/test_ids.py::test_a_session_id_may_not_be",
    ),
    "MAX_IDEMPOTENCY_KEY": (f"{HERE}::test_an_idempotency_key_has_256_characters_at_most",),
    "MAX_MESSAGE_ID": (f"{HERE}::test_a_message_id_has_128_characters_at_most",),
    "MAX_SETTINGS_BYTES": (f"{HERE}::test_settings_have_16_kib_of_json_at_most",),
    "CREDENTIAL_LOOK": (f"{HERE}::test_the_sweep_looks_for_another_credential_a_minute_after_one_was_refused",),
    "LONGEST_QUEUE_DELAY": (
        f"{WAITING}::test_a_look_at_remote_work_waits_in_the_queue_for_a_quarter_of_an_hour_at_most",
    ),
    "CANCEL_RETRY_DELAYS": (f"{WAITING}::test_remote_work_is_asked_to_stop_after_these_waits_and_not_a_fourth_time",),
    "CANCEL_WINDOW": (f"{WAITING}::test_remote_work_is_asked_to_stop_again_within_two_minutes_only",),
    "RECONCILE_DELAYS": ("unit/core/test_reconcile.py::test_an_outcome_that_stays_unknown_is_said_to_be",),
    "MAX_WAIT": (
        "unit/core/test_waits.py::test_a_wait_needs_a_time_within_a_year",
        "handlers/test_timers_on_aws.py::test_the_longest_wait_ends_on_the_second_a_year_later",
    ),
    "MIN_POLL_INTERVAL": (f"{WAITING}::test_two_looks_are_a_second_to_a_day_apart",),
    "MAX_POLL_INTERVAL": (f"{WAITING}::test_two_looks_are_a_second_to_a_day_apart",),
    "MAX_AHEAD": ("unit/test_service_schedules.py::test_an_occurrence_may_be_moved_as_far_as_one_may_be_set",),
    "MAX_SCHEDULES": ("unit/core/test_schedules.py::test_a_session_has_a_hundred_at_most_and_they_fit_in_its_head",),
    "LATE_AFTER": (f"{WAITING}::test_an_occurrence_is_late_after_a_minute",),
    "SCHEDULE_RETRY_LIMIT": (
        "unit/core/test_schedule_retries.py::test_an_occurrence_is_tried_again_after_1_2_4_up_to_60_seconds",
    ),
    "MAX_REQUESTS": ("unit/core/test_inputs.py::test_there_are_thirty_two_at_most",),
    "MAX_GRANTS": ("unit/core/test_grants.py::test_a_session_has_twenty_at_most_and_those_that_are_over_do_not_count",),
    "MAX_GRANT": (f"{WAITING}::test_an_approval_ahead_holds_for_thirty_days_at_most",),
    "MAX_GRANT_USES": (
        "unit/core/test_grants.py::test_it_counts_to_a_million_at_most",
        "unit/core/test_grants.py::test_one_without_bounds_is_refused_and_nothing_is_approved",
    ),
    "MAX_RECORDS": ("unit/core/test_parks.py::test_a_call_has_a_limit_of_facts",),
    "MAX_CHECKPOINT_BYTES": (
        "contracts/test_lease_contract.py::test_a_checkpoint_of_four_kilobytes_is_kept_and_a_larger_one_refused",
    ),
    "MAX_TOOL_OUTPUT_BYTES": (
        "unit/steps/test_call_tool.py::test_an_output_that_is_too_large_is_not_kept_and_a_write_still_succeeded",
    ),
}
