"""Errors of one kind share a fingerprint, others don't."""

from dalston_queue.jobs.lifecycle.dead_letters import fingerprint


def of(message: str, cause: str = "error", kind: str = "ValueError") -> str:
    return fingerprint("echo", cause, kind, message)


def test_numbers_ids_paths_and_quoted_values_do_not_matter() -> None:
    assert of("frame 17 of /data/a/b.wav is 'short'") == of("frame 9 of /data/c/d.wav is 'long'")
    assert of("task 019a8f00-0000-7000-8000-000000000000 at 0xdeadbeef") == of(
        "task 019b1234-5678-7abc-8def-0123456789ab at 0xFEED"
    )


def test_only_the_first_line_matters() -> None:
    assert of("out of memory\nat line 3") == of("out of memory\nsomewhere else")


def test_other_words_another_type_or_another_cause_are_another_problem() -> None:
    assert (
        len(
            {
                of("out of memory"),
                of("file not found"),
                of("out of memory", kind="OSError"),
                of("out of memory", "timeout"),
            }
        )
        == 4
    )
