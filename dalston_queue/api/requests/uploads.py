"""Uploads: a multipart form whose file goes straight into the artifact store, under its content.

The file is stored for good only after the whole request was checked: what is refused, or breaks off, leaves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest

from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.api.requests.room import Room
from dalston_queue.api.requests.stream import UploadTooLarge, limit, too_large_upload
from dalston_queue.artifacts import Artifact, Writer
from dalston_queue.database import before_wait
from dalston_queue.jobs.artifacts import the_store
from dalston_queue.slots import Slots

FIELD = "file"
UPLOAD_SLOTS = Slots(settings.DALSTON_MAX_UPLOADS)


class StoredUpload(UploadedFile):  # type: ignore[type-arg] # generic in the stubs only
    """A file that was received. `keep` stores it for good; closed without it, nothing stays."""

    def __init__(self, writer: Writer, name: str) -> None:
        super().__init__(None, name, size=writer.size)
        self._writer = writer

    @property
    def ref(self) -> str:
        return self._writer.ref

    def keep(self) -> Artifact:
        return self._writer.commit()

    def close(self) -> None:
        self._writer.discard()


class StoreHandler(FileUploadHandler):
    """Django calls it for each file of the form."""

    chunk_size = 256 * 1024
    writer: Writer | None = None
    room: Room | None = None

    def new_file(self, field_name: str, *args: Any, **kwargs: Any) -> None:
        super().new_file(field_name, *args, **kwargs)
        if field_name != FIELD:
            raise ApiProblem(422, Code.INVALID, f"{field_name[:100]}: only the field `{FIELD}` may hold a file.")
        if self.writer is not None:
            raise ApiProblem(422, Code.INVALID, f"{FIELD}: send one file with each request.")
        self.writer = the_store().writer()

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        assert self.writer is not None  # noqa: S101 - new_file came first
        if start + len(raw_data) > settings.DALSTON_MAX_UPLOAD_BYTES:
            raise UploadTooLarge
        if self.room is not None:
            self.room.take(len(raw_data))
        self.writer.write(raw_data)

    def file_complete(self, file_size: int) -> StoredUpload:
        assert self.writer is not None  # noqa: S101
        return StoredUpload(self.writer, self.file_name or "")

    def discard(self) -> None:
        if self.writer is not None:
            self.writer.discard()
        if self.room is not None:
            self.room.close()


def expect_upload(request: HttpRequest) -> None:
    """The first `auth` of a route that takes a file. It admits no client: the CSRF check of a login reads the form, so
    the handler must be there before it."""
    if not is_form(request):
        return
    announced = int(request.META.get("CONTENT_LENGTH") or 0)
    if announced > limit():
        raise too_large_upload()
    if not announced:  # sent in chunks; Django would take it for empty
        request.META["CONTENT_LENGTH"] = str(limit())
    request.upload_handlers = [StoreHandler(request)]


def is_form(request: HttpRequest) -> bool:
    return request.content_type == "multipart/form-data"


@contextmanager
def received(
    request: HttpRequest, holder: str, project_id: UUID
) -> Iterator[tuple[dict[str, list[str]], StoredUpload | None]]:
    """The fields of the form and its file, which is discarded after the block unless it was kept."""
    handlers = [handler for handler in request.upload_handlers if isinstance(handler, StoreHandler)]
    with UPLOAD_SLOTS.take(holder) as free:
        if not free:
            detail = f"None of the {UPLOAD_SLOTS.limit} slots for uploads is free for this project. Nothing was stored."
            raise ApiProblem(503, Code.TOO_MANY_UPLOADS, detail, headers={"Retry-After": "5"})
        for handler in handlers:
            handler.room = Room(project_id)
        before_wait()  # an upload may take minutes
        try:
            fields, files = _parsed(request)
            yield fields, files
        finally:
            for handler in handlers:
                handler.discard()


def _parsed(request: HttpRequest) -> tuple[dict[str, list[str]], StoredUpload | None]:
    """What may go wrong while the form is read is a problem document by handlers.py."""
    fields, files = dict(request.POST.lists()), request.FILES
    found = files.get(FIELD)
    return fields, found if isinstance(found, StoredUpload) else None
