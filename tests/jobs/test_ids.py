"""UUIDv7: valid, time-ordered, and growing within a process."""

import threading
import time
from uuid import RFC_4122, UUID

from dalston_queue.ids import uuid7


def test_an_id_is_a_valid_version_7_with_the_present_time() -> None:
    made = uuid7()
    assert (made.version, made.variant) == (7, RFC_4122)
    assert abs((made.int >> 80) - time.time() * 1000) < 1000


def test_ids_of_one_process_only_grow_even_ten_thousand_in_a_row() -> None:
    ids = [uuid7() for _ in range(10_000)]
    assert ids == sorted(set(ids))


def test_threads_never_make_the_same_id() -> None:
    made: list[UUID] = []
    threads = [threading.Thread(target=lambda: made.extend([uuid7() for _ in range(2_000)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8_000
