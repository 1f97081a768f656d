"""The published advisories of SDKs, servers and tools of the protocol, and the tests that show that they are not ours.

What an advisory is about that does not exist here is in `ABSENT`, with the reason.
"""

from __future__ import annotations

from typing import Final

from .faults import ENVELOPE, SESSIONS, STREAMS, SURFACE, Proofs

HERE = "transports/http_security/test_advisories.py"
REBOUND = [
    (HERE, "test_a_name_that_was_rebound_to_the_loopback_reaches_nothing_by_default"),
    (SURFACE, "test_a_name_that_was_rebound_to_this_machine_is_not_answered"),
]
OF_ANOTHER = [
    (HERE, "test_neither_session_nor_stream_of_a_user_serves_another"),
    (SESSIONS, "test_neither_session_nor_stream_of_a_user_serves_another"),
]

ADVISORIES: Final[Proofs] = {
    "CVE-2025-66416": REBOUND,
    "CVE-2025-66414": REBOUND,
    "GHSA-9h52-p55h-vw2f": REBOUND,
    "GHSA-w48q-cv73-mx4w": REBOUND,
    "CVE-2026-34742": REBOUND,
    "GHSA-xw59-hvm2-8pj6": REBOUND,
    "CVE-2026-42559": REBOUND,
    "GHSA-89vp-x53w-74fx": REBOUND,
    "CVE-2025-53366": [
        (HERE, "test_no_request_ends_the_server_or_another_session"),
        (SURFACE, "test_what_is_no_message_is_refused_and_runs_nothing"),
    ],
    "GHSA-3qhf-m339-9g5v": [(HERE, "test_no_request_ends_the_server_or_another_session")],
    "CVE-2025-53365": [
        (HERE, "test_a_client_that_resets_its_connection_in_its_request_does_not_end_the_server"),
        (STREAMS, "test_connections_that_are_reset_at_any_time_leave_the_server_well"),
    ],
    "GHSA-j975-95f5-7wqh": [(STREAMS, "test_connections_that_are_reset_at_any_time_leave_the_server_well")],
    "GHSA-jpw9-pfvf-9f58": OF_ANOTHER,
    "CVE-2026-33946": [*OF_ANOTHER, (STREAMS, "test_nobody_resumes_the_stream_of_another")],
    "GHSA-qvqr-5cv7-wh35": [*OF_ANOTHER, (STREAMS, "test_nobody_resumes_the_stream_of_another")],
    "GHSA-84j6-jc92-77jm": [
        *OF_ANOTHER,
        (
            "features/elicitation/test_multi_round_trip.py",
            "test_a_state_is_refused_for_another_request_and_another_user",
        ),
    ],
    "CVE-2026-25536": [
        (HERE, "test_the_clients_of_one_server_object_never_hear_each_other"),
        (STREAMS, "test_a_thousand_clients_that_all_use_one_id_get_their_own_answers"),
    ],
    "GHSA-345p-7cg4-v4c7": [(HERE, "test_the_clients_of_one_server_object_never_hear_each_other")],
    "CVE-2026-33252": [(SURFACE, "test_what_no_browser_has_to_ask_for_first_is_not_taken")],
    "CVE-2026-27896": [
        (HERE, "test_a_key_in_another_case_is_not_taken_for_the_key"),
        (SURFACE, "test_keys_in_another_case_are_other_keys"),
    ],
    "CVE-2026-0621": [
        (HERE, "test_no_uri_keeps_a_server_busy"),
        ("unit/json_schema/test_uri_templates.py", "test_matching_is_linear_in_the_uri"),
    ],
    "CVE-2026-116686": [
        (HERE, "test_no_schema_of_a_server_makes_a_client_fetch_anything"),
        ("unit/json_schema/test_validation.py", "test_a_reference_that_leads_elsewhere_is_refused_and_never_fetched"),
    ],
    "session and stream ids that can be guessed": [
        (HERE, "test_ids_of_sessions_and_streams_cannot_be_guessed"),
        (SURFACE, "test_sessions_cannot_be_guessed_or_used_after_their_end"),
    ],
    "python-sdk issue 3060": [
        (ENVELOPE, "test_an_id_that_is_used_twice_at_once_is_answered_on_each_request_or_refused")
    ],
    "CVE-2025-6514": [
        ("auth/client/test_flow.py", "test_nobody_is_sent_anywhere_by_what_a_hostile_server_says"),
        ("auth/client/test_rules.py", "test_an_unsafe_url_is_not_asked"),
    ],
    "CVE-2026-27124": [
        ("auth/authorization_server/test_consent.py", "test_consent_is_given_from_the_page_of_this_browser_alone"),
        (
            "auth/authorization_server/test_upstream_provider.py",
            "test_a_deputy_is_not_confused_each_client_is_agreed_to_here_although_the_third_party_knows_one_alone",
        ),
    ],
    "GHSA-c2jp-c369-7pvx": [
        (
            "auth/authorization_server/test_consent.py",
            "test_a_client_that_was_allowed_before_is_asked_for_again_and_so_is_a_new_one",
        )
    ],
    "CVE-2026-63720": [("codegen/test_hostile_schemas.py", "test_no_text_of_a_schema_becomes_syntax")],
    "CVE-2025-62727": [("proofs/test_tables.py", "test_what_an_advisory_is_about_is_required_in_a_version_without_it")],
}

ABSENT: Final = {
    "CVE-2025-49596": "the Inspector's proxy starts processes for whoever asks; nothing here does",
    "CVE-2026-32871": "paths of an OpenAPI document become URLs there; nothing here reads such documents",
}
