"""The rows of the list of threats and faults that concern HTTP, by section and number, and the tests that prove them.

`ROWS` holds what a server of ours withstands: each on uvicorn with h11 and with httptools. `ELSEWHERE` holds the rows
of the same sections that no parser of ours has a part in: what our client withstands, and what stdio does.
"""

from __future__ import annotations

from typing import Final

ENVELOPE = "transports/http_security/test_envelope.py"
FLOODS = "transports/http_security/test_floods.py"
SESSIONS = "transports/http_security/test_sessions.py"
STREAMS = "transports/http_security/test_streams.py"
SURFACE = "transports/http_security/test_surface.py"
ENDURANCE = "transports/http_security/test_endurance.py"
HOSTILE = "transports/http_client/test_hostile_servers.py"
REACH = "transports/http_client/test_http_options.py"
CLIENT = "transports/http_client/test_sessions.py"
READERS = "transports/stdio/test_slow_readers.py"
SURVIVES = "transports/stdio/test_misbehaving_servers.py"

Proofs = dict[str, list[tuple[str, str]]]

ROWS: Final[Proofs] = {
    # Envelope and rules of each revision.
    "1.2/01 no version, a method that is none, params that are no object": [
        (ENVELOPE, "test_an_error_names_its_request_where_the_id_can_be_read"),
        (SURFACE, "test_what_is_no_message_is_refused_and_runs_nothing"),
    ],
    "1.2/02 ids that are no ids": [(ENVELOPE, "test_an_error_names_its_request_where_the_id_can_be_read")],
    "1.2/03 ids at their limits": [(SURFACE, "test_ids_come_back_as_they_were")],
    "1.2/04 a number and its text": [(ENVELOPE, "test_a_number_and_its_text_in_flight_together_are_two_ids")],
    "1.2/05 one id twice at once": [
        (ENVELOPE, "test_an_id_that_is_used_twice_at_once_is_answered_on_each_request_or_refused"),
        (SESSIONS, "test_of_two_calls_with_one_id_each_stream_is_resumed_as_its_own"),
    ],
    "1.2/06 a method there is not": [
        (ENVELOPE, "test_a_method_there_is_not_is_an_error_also_where_its_name_is_that_of_a_notification")
    ],
    "1.2/07 a method there is no more": [
        (ENVELOPE, "test_a_method_there_is_not_is_an_error_also_where_its_name_is_that_of_a_notification")
    ],
    "1.2/08 a notification, and a request without id": [
        (ENVELOPE, "test_what_has_no_id_is_not_answered_and_what_nobody_asked_is_ignored")
    ],
    "1.2/09 a notification with an id": [
        (ENVELOPE, "test_a_method_there_is_not_is_an_error_also_where_its_name_is_that_of_a_notification")
    ],
    "1.2/10 a batch where there are batches": [
        (ENVELOPE, "test_a_batch_is_answered_where_there_are_batches_and_nowhere_else")
    ],
    "1.2/11 a batch where there are none": [
        (ENVELOPE, "test_a_batch_is_answered_where_there_are_batches_and_nowhere_else"),
        (ENVELOPE, "test_a_batch_does_not_slip_past_the_headers_that_repeat_its_body"),
    ],
    "1.2/12 answers to nothing": [(ENVELOPE, "test_what_has_no_id_is_not_answered_and_what_nobody_asked_is_ignored")],
    "1.2/13 arguments of the wrong type": [(ENVELOPE, "test_arguments_of_the_wrong_type_run_nothing")],
    "1.2/14 a handler that fails": [(SURFACE, "test_a_fault_of_a_handler_tells_nothing_of_the_inside")],
    "1.2/15 what stands for a session": [
        (ENVELOPE, "test_a_request_that_stands_alone_says_all_that_a_session_would_know")
    ],
    "1.2/16 codes there are not": [(ENVELOPE, "test_whatever_is_wrong_the_code_is_one_there_is")],
    # The surface.
    "1.3/01 pages of others": [(SURFACE, "test_a_page_that_is_not_of_this_machine_may_not_call")],
    "1.3/02 a name that was rebound": [(SURFACE, "test_a_name_that_was_rebound_to_this_machine_is_not_answered")],
    "1.3/03 names and pages that begin like ours": [
        (SURFACE, "test_a_page_that_is_not_of_this_machine_may_not_call"),
        (SURFACE, "test_a_name_that_was_rebound_to_this_machine_is_not_answered"),
    ],
    "1.3/04 no name, or two": [(SURFACE, "test_a_name_that_was_rebound_to_this_machine_is_not_answered")],
    "1.3/05 what a page sends unasked": [(SURFACE, "test_what_no_browser_has_to_ask_for_first_is_not_taken")],
    "1.3/06 the case of a media type": [(SURFACE, "test_what_no_browser_has_to_ask_for_first_is_not_taken")],
    "1.3/07 what is accepted": [(SURFACE, "test_accept_headers_of_every_kind_are_served_or_refused")],
    "1.3/08 a revision that is not served": [(SURFACE, "test_a_version_that_is_not_served_is_a_bad_request")],
    "1.3/09 headers that repeat a body": [
        (SESSIONS, "test_headers_that_do_not_say_what_the_body_says_run_nothing"),
        (SESSIONS, "test_headers_in_any_of_their_forms_are_taken"),
    ],
    "1.3/10 a revision that is not that of the body": [
        (SESSIONS, "test_headers_that_do_not_say_what_the_body_says_run_nothing")
    ],
    "1.3/11 a preflight": [(SURFACE, "test_a_preflight_grants_nothing")],
    "1.3/12 redirects": [(SURFACE, "test_other_methods_and_paths_are_refused_without_redirects")],
    "1.3/13 two kinds of length": [(SURFACE, "test_a_request_with_two_kinds_of_length_cannot_smuggle_another")],
    "1.3/14 requests that are none": [(SURFACE, "test_a_request_that_is_none_is_refused_or_its_connection_closed")],
    "1.3/15 other methods and paths": [(SURFACE, "test_other_methods_and_paths_are_refused_without_redirects")],
    "1.3/16 what sessions had": [
        (SESSIONS, "test_there_is_no_get_and_no_delete_without_sessions"),
        (SESSIONS, "test_headers_in_any_of_their_forms_are_taken"),
    ],
    "1.3/17 other machines": [(SESSIONS, "test_nothing_outside_this_machine_reaches_a_server_that_was_told_nothing")],
    "1.3/18 what errors show": [
        (SESSIONS, "test_nothing_that_is_said_shows_the_inside"),
        (SURFACE, "test_a_fault_of_a_handler_tells_nothing_of_the_inside"),
    ],
    # Sessions and streams.
    "1.4/01 ids that can be guessed": [(SURFACE, "test_sessions_cannot_be_guessed_or_used_after_their_end")],
    "1.4/02 ids of no session": [(SURFACE, "test_sessions_cannot_be_guessed_or_used_after_their_end")],
    "1.4/03 the session of somebody else": [(SESSIONS, "test_neither_session_nor_stream_of_a_user_serves_another")],
    "1.4/04 a session that was deleted": [
        (SURFACE, "test_sessions_cannot_be_guessed_or_used_after_their_end"),
        (STREAMS, "test_deleting_a_session_ends_what_it_was_doing"),
    ],
    "1.4/05 clients with the same ids": [
        (STREAMS, "test_a_thousand_clients_that_all_use_one_id_get_their_own_answers")
    ],
    "1.4/06 the stream of somebody else": [
        (STREAMS, "test_nobody_resumes_the_stream_of_another"),
        (SESSIONS, "test_of_two_calls_with_one_id_each_stream_is_resumed_as_its_own"),
    ],
    "1.4/07 a stream there is not": [(STREAMS, "test_nobody_resumes_the_stream_of_another")],
    "1.4/08 streams that are cut": [
        (STREAMS, "test_a_stream_cut_anywhere_goes_on_without_loss_or_repetition"),
        (STREAMS, "test_the_standing_stream_cut_anywhere_goes_on_without_loss_or_repetition"),
    ],
    "1.4/09 many sessions": [
        (SESSIONS, "test_sessions_are_limited_in_number"),
        (SESSIONS, "test_sessions_that_nobody_uses_end"),
    ],
    "1.4/10 who listens": [
        (STREAMS, "test_who_listens_without_a_session_hears_first_what_was_agreed"),
        (ENDURANCE, "test_the_server_ends_in_time_with_streams_and_calls_open"),
    ],
    # Concurrency, time, lifecycle.
    "1.5/01 slow clients": [(ENDURANCE, "test_slow_heads_bodies_and_readers_leave_a_healthy_client_alone")],
    "1.5/02 connections that are reset": [
        (STREAMS, "test_connections_that_are_reset_at_any_time_leave_the_server_well")
    ],
    "1.5/03 clients that leave": [(STREAMS, "test_a_connection_that_is_lost_harms_its_own_call_alone")],
    "1.5/04 cancellations": [
        (STREAMS, "test_cancelling_reaches_no_other_session"),
        (SESSIONS, "test_a_cancellation_that_comes_late_or_says_nothing_changes_nothing"),
    ],
    "1.5/05 a slow call before a quick one": [(SESSIONS, "test_a_quick_call_overtakes_a_slow_one")],
    "1.5/06 many calls at once": [(SURFACE, "test_many_calls_at_once_are_each_answered_once")],
    "1.5/09 the end of a server": [(ENDURANCE, "test_the_server_ends_in_time_with_streams_and_calls_open")],
    "1.5/11 progress without end": [(SESSIONS, "test_progress_without_end_does_not_put_the_end_of_a_call_off")],
    "1.5/12 floods": [
        (FLOODS, "test_two_hundred_thousand_notifications_leave_nothing_in_a_server"),
        (FLOODS, "test_two_hundred_thousand_notifications_leave_nothing_in_a_client"),
        (FLOODS, "test_twenty_thousand_requests_of_a_server_are_worked_on_and_answered_a_few_at_a_time"),
        (READERS, "test_twenty_thousand_requests_at_once_are_each_answered_once"),
    ],
}

ELSEWHERE: Final[Proofs] = {
    "1.5/07 a slow reader of output": [
        (READERS, "test_a_slow_reader_loses_nothing_and_what_it_does_not_read_is_not_piled_up"),
        (READERS, "test_a_reader_that_is_stopped_is_waited_for_without_work_and_its_death_is_the_end"),
    ],
    "1.5/08 standard error that nobody reads": [(SURVIVES, "test_a_flood_on_standard_error_disturbs_nothing")],
    "1.5/10 servers of ours that die": [
        (SURVIVES, "test_a_server_that_dies_in_a_call_fails_the_call_at_once"),
        (SURVIVES, "test_a_server_that_ignores_the_end_of_its_input_and_sigterm_is_killed"),
    ],
    "1.5/13 answers to another id": [
        (HOSTILE, "test_an_answer_is_found_in_a_stream"),
        (HOSTILE, "test_a_call_that_gets_no_answer_fails_at_once_and_alone"),
    ],
    "1.5/14 streams of a hostile server": [
        (HOSTILE, "test_an_answer_is_found_in_a_stream"),
        (HOSTILE, "test_a_call_that_gets_no_answer_fails_at_once_and_alone"),
        (HOSTILE, "test_a_slow_answer_ends_at_the_deadline_of_the_call_and_the_server_is_told"),
    ],
    "1.5/15 a hostile id of a session": [(CLIENT, "test_a_hostile_session_id_is_refused")],
    "1.5/16 a redirect with credentials": [
        (HOSTILE, "test_a_call_that_gets_no_answer_fails_at_once_and_alone"),
        (REACH, "test_credentials_follow_a_redirect_to_their_own_origin_alone"),
    ],
}
