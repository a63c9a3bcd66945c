"""Errors of requests about jobs. All are permanent: the same request fails again.

JobsError
├── InvalidJob            the request can't become a job: a bad name, a cycle, a value Postgres can't hold
│   ├── InvalidCallback   its callback URL may not be called
│   └── TooManyNames      it would be the first to use a queue, or capabilities, and there are too many
├── IdempotencyConflict   the key was used for another request
├── StorageFull           the files of the project fill its share of the artifact store
├── InvalidLimit          a limit or weight can't be set; names the field
│   └── NoSuchProject     it names a project that does not exist
├── InvalidSearch         the search can't be understood
├── NothingToReplay       no dead letter matches
└── SearchTooWide         the search would read too much of the history
    └── TooManySearches   the project's share of slow searches is taken
"""


class JobsError(Exception):
    """A request about jobs that can't be met. The message is a sentence for the client, see `sentence`."""


def sentence(error: Exception) -> str:
    """The message as a client sees it: with a capital and a full stop."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


class InvalidJob(JobsError):
    pass


class InvalidCallback(InvalidJob):
    pass


class TooManyNames(InvalidJob):
    pass


class IdempotencyConflict(JobsError):
    pass


class StorageFull(JobsError):
    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the files of this project may take {limit} bytes in the artifact store (DALSTON_MAX_STORED_BYTES): "
            "recordings, and what engines made of them. Delete transcriptions that have ended, and try again when "
            "DALSTON_ARTIFACT_GRACE_S is over; other jobs expire after DALSTON_HISTORY_DAYS. Nothing was stored"
        )


class InvalidLimit(JobsError):
    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class NoSuchProject(InvalidLimit):
    pass


class InvalidSearch(JobsError):
    pass


class NothingToReplay(JobsError):
    pass


class SearchTooWide(JobsError):
    pass


class TooManySearches(SearchTooWide):
    pass
