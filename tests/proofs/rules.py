"""The rules that the transport pages of the later revisions add, in their order, and the tests that prove them.

Rules up to 2025-06-18 are clauses of the seed documents: see docs/clauses.md for the tests that carry them.
"""

from __future__ import annotations

from typing import Final

from .advisories import REBOUND
from .faults import CLIENT, ENVELOPE, HOSTILE, REACH, SESSIONS, STREAMS, SURFACE, Proofs

ENDPOINT = "transports/http_server/test_endpoint.py"
CLAUSES = "transports/http_server/test_session_clauses.py"
ALONE = "transports/http_server/test_stateless_clauses.py"
RULES = "unit/http/test_http_rules.py"
ASKING = "unit/http/test_client_rules.py"
RESUMED = "transports/http_server/test_streams.py"
ENDS = "transports/http_server/test_shutdown_and_reconnect.py"

OF_2025_11_25: Final[Proofs] = {
    "a foreign page gets 403": [
        (CLAUSES, "test_a_foreign_page_is_forbidden_and_an_event_tells_its_stream"),
        (SURFACE, "test_a_page_that_is_not_of_this_machine_may_not_call"),
    ],
    "a stream begins with an event that has an id and no data": [
        (ENDPOINT, "test_a_stream_begins_with_an_event_that_says_where_to_resume"),
        (ENDPOINT, "test_older_clients_get_no_empty_event"),
    ],
    "a server may end the connection after that, and says first when to come back": [
        (RESUMED, "test_a_server_may_end_a_connection_and_the_client_comes_back_for_the_answer")
    ],
    "a client comes back, and no sooner than it was told": [
        (HOSTILE, "test_a_stream_cut_anywhere_is_resumed_without_loss_or_doubling"),
        (REACH, "test_a_client_comes_back_no_sooner_than_it_was_told"),
        (ASKING, "test_waiting_grows_within_bounds_and_what_the_server_says_is_the_least"),
    ],
    "the stream of a GET is polled alike": [
        (STREAMS, "test_the_standing_stream_cut_anywhere_goes_on_without_loss_or_repetition"),
        (CLIENT, "test_what_the_server_says_by_itself_is_answered_and_its_stream_is_opened_again"),
    ],
    "an event's id says which stream it is of": [
        (CLAUSES, "test_a_foreign_page_is_forbidden_and_an_event_tells_its_stream"),
        (RULES, "test_an_event_id_names_its_stream_and_its_place"),
    ],
    "every stream is resumed by GET": [
        (RESUMED, "test_an_interrupted_stream_goes_on_where_it_was"),
        (STREAMS, "test_a_stream_cut_anywhere_goes_on_without_loss_or_repetition"),
    ],
    "a client keeps the id of its session to itself": [(CLIENT, "test_no_secret_reaches_a_log_or_an_error")],
    "what a server says on standard error is no error": [
        ("transports/stdio/test_misbehaving_servers.py", "test_a_flood_on_standard_error_disturbs_nothing")
    ],
    "after 400, 404 and 405 alone an older server is looked for": [
        (ASKING, "test_a_refused_opening_may_be_that_of_an_older_server")
    ],
}

OF_2026_07_28: Final[Proofs] = {
    # Endpoint and sending.
    "one endpoint, which takes POST": [(SESSIONS, "test_there_is_no_get_and_no_delete_without_sessions")],
    "the page that asks is looked at, and a foreign one gets 403": [
        (SURFACE, "test_a_page_that_is_not_of_this_machine_may_not_call"),
        *REBOUND,
    ],
    "a server of this machine listens to it alone": [
        (ENDS, "test_a_server_listens_on_the_loopback_where_nothing_else_is_said"),
        (SESSIONS, "test_nothing_outside_this_machine_reaches_a_server_that_was_told_nothing"),
    ],
    "each message is a POST of its own, takes both kinds of answer, and has its headers": [
        (ALONE, "test_what_a_client_sends")
    ],
    "a body is one request or notification": [
        (ALONE, "test_other_bodies_than_requests_and_notifications_are_refused"),
        (ENVELOPE, "test_a_batch_does_not_slip_past_the_headers_that_repeat_its_body"),
    ],
    "a client sends no answers": [(ALONE, "test_what_a_client_sends")],
    "a notification gets 202 and no body, or the status of an error": [
        (ALONE, "test_other_bodies_than_requests_and_notifications_are_refused"),
        (ENVELOPE, "test_what_has_no_id_is_not_answered_and_what_nobody_asked_is_ignored"),
    ],
    "a request is answered by JSON or by a stream": [
        (ENDPOINT, "test_a_call_is_answered_by_one_json_body"),
        (ENDPOINT, "test_a_client_that_takes_streams_alone_gets_one"),
    ],
    "a client takes both": [(REACH, "test_a_client_without_sessions_takes_both_kinds_of_answer")],
    # Receiving.
    "what goes on a stream belongs to its request, and the answer ends it": [
        (ALONE, "test_a_stream_holds_what_belongs_to_its_request_and_ends_with_its_answer")
    ],
    "a server sends no requests": [(ALONE, "test_what_a_server_asks_is_in_a_result_and_never_a_request")],
    "who listens hears of what was agreed alone": [
        (RESUMED, "test_who_listens_hears_first_what_was_agreed_and_then_of_that_alone"),
        (STREAMS, "test_who_listens_without_a_session_hears_first_what_was_agreed"),
    ],
    "proxies are asked not to buffer": [(ENDS, "test_proxies_are_asked_not_to_buffer_and_not_to_keep_a_stream")],
    "a silent stream is kept alive": [
        (ENDS, "test_a_proxy_that_drops_silent_connections_finds_none"),
        (ALONE, "test_who_listens_while_nothing_happens_gets_comments_and_the_end_is_said"),
    ],
    "comments are no events": [(HOSTILE, "test_an_answer_is_found_in_a_stream")],
    "streams are not resumed": [(RESUMED, "test_streams_of_requests_that_stand_alone_cannot_be_resumed")],
    # Cancellation.
    "who closes its stream cancels its request, of which nothing more is said": [
        (ENDPOINT, "test_a_client_that_leaves_cancels_its_request"),
        (STREAMS, "test_a_connection_that_is_lost_harms_its_own_call_alone"),
    ],
    "a client cancels in no other way": [
        (CLIENT, "test_a_stateless_call_is_cancelled_by_closing_its_stream_and_by_nothing_else")
    ],
    # Headers.
    "the revision is that of the body": [
        (ALONE, "test_a_request_that_breaks_a_rule_runs_nothing"),
        (SESSIONS, "test_headers_that_do_not_say_what_the_body_says_run_nothing"),
    ],
    "a revision that is not served is refused with those that are": [
        (ALONE, "test_other_bodies_than_requests_and_notifications_are_refused"),
        ("features/lifecycle/test_stateless.py", "test_another_version_is_refused_with_those_that_are_supported"),
    ],
    "a method there is not gets 404 and its code": [
        (ENDPOINT, "test_a_method_there_is_not_is_not_found"),
        (ENVELOPE, "test_a_method_there_is_not_is_an_error_also_where_its_name_is_that_of_a_notification"),
    ],
    "method and name are repeated": [
        (ALONE, "test_what_a_client_sends"),
        (ALONE, "test_a_request_that_breaks_a_rule_runs_nothing"),
        (ASKING, "test_a_name_or_an_address_is_repeated_where_the_method_has_one"),
    ],
    "what no header can say is in its Base64 form": [
        (RULES, "test_a_text_comes_back_from_the_header_that_repeats_it"),
        (RULES, "test_the_base64_form_is_read_strictly_and_whatever_lacks_its_marks_is_text"),
        (ASKING, "test_headers_repeat_the_body_in_the_stateless_revision_alone"),
    ],
    "a header is decoded before it is compared": [
        (ENDPOINT, "test_a_name_may_come_with_spaces_around_it_or_in_its_base64_form"),
        (SESSIONS, "test_headers_in_any_of_their_forms_are_taken"),
    ],
    "where a schema may ask for an argument in a header": [
        (RULES, "test_a_schema_says_which_arguments_headers_repeat"),
        (RULES, "test_a_schema_that_says_so_where_it_may_not_is_refused"),
    ],
    "a client leaves tools out that ask for it elsewhere, and says so": [
        (ASKING, "test_tools_whose_annotations_are_not_allowed_are_left_out")
    ],
    "arguments are repeated, and those that are not there or null are not": [
        (ASKING, "test_headers_repeat_the_body_in_the_stateless_revision_alone"),
        (ENDPOINT, "test_arguments_that_headers_repeat_have_to_agree_with_them"),
        (RULES, "test_headers_and_arguments_have_to_agree"),
    ],
    "numbers are compared as numbers": [(RULES, "test_headers_and_arguments_have_to_agree")],
    "a client that was refused for its headers lists the tools and asks again": [
        (CLIENT, "test_a_call_refused_for_its_headers_is_sent_again_after_the_tools_are_listed_again")
    ],
    "names of headers have no case, and values have": [
        (ALONE, "test_a_request_that_breaks_a_rule_runs_nothing"),
        (SESSIONS, "test_headers_in_any_of_their_forms_are_taken"),
    ],
    "what does not agree gets 400 and its code": [
        (ENDPOINT, "test_headers_say_what_the_body_says"),
        (SESSIONS, "test_headers_that_do_not_say_what_the_body_says_run_nothing"),
    ],
    # Earlier revisions.
    "an error that only this revision has is no reason to fall back": [
        (ASKING, "test_a_refusal_says_whether_the_server_may_know_another_lifecycle"),
        (CLIENT, "test_a_server_that_refuses_what_it_says_it_speaks_is_asked_once_more_and_no_more"),
    ],
    "any other refusal is, to the handshake": [
        (CLIENT, "test_a_server_with_a_handshake_is_found_out"),
        (ASKING, "test_a_refusal_says_whether_the_server_may_know_another_lifecycle"),
    ],
    "GET and DELETE get 405": [(SESSIONS, "test_there_is_no_get_and_no_delete_without_sessions")],
    "the headers of sessions are ignored, and none is opened": [
        (ALONE, "test_a_request_that_keeps_the_rules_is_answered"),
        (SESSIONS, "test_headers_in_any_of_their_forms_are_taken"),
    ],
    "the older pair of endpoints is served beside, and found out": [
        (CLAUSES, "test_the_older_pair_first_says_where_to_post_and_answers_on_its_stream"),
        (ASKING, "test_a_refused_opening_may_be_that_of_an_older_server"),
        (CLIENT, "test_the_calls_of_an_older_server_fail_when_its_stream_ends"),
    ],
}

LATER: Final = {"2025-11-25": OF_2025_11_25, "2026-07-28": OF_2026_07_28}
