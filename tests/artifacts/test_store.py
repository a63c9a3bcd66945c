"""What holds for every store: content by its digest, whole or not at all, ranges, deletion by age."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from dalston_queue.artifacts import ArtifactMissing, BadReference, Store, StoreError, open_store
from dalston_queue.artifacts.reference import references_in, stored_value
from dalston_queue.artifacts.store import Readable

CONTENT = b"RIFF" + bytes(range(256)) * 20_000  # 5 MB: more than one block of every kind
REF = f"sha256:{sha256(CONTENT).hexdigest()}"
PART = int(REF[7:9], 16)
HOUR = 3600.0


def whole(source: Readable) -> bytes:
    parts = iter(lambda: source.read(100_000), b"")
    return b"".join(parts)


def test_a_file_is_named_by_its_content_and_comes_back_whole(store: Store, tmp_path: Path) -> None:
    artifact = store.put(io.BytesIO(CONTENT))
    assert (artifact.ref, artifact.size) == (REF, len(CONTENT))
    assert store.size(REF) == len(CONTENT)
    assert store.read(REF) == CONTENT
    assert store.path(REF, tmp_path / "fetched").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("offset", "length"), [(0, 10), (4, None), (1_500_000, 2_000_000), (len(CONTENT) - 3, 100), (len(CONTENT), None)]
)
def test_a_part_can_be_read(store: Store, offset: int, length: int | None) -> None:
    store.put(io.BytesIO(CONTENT))
    end = None if length is None else offset + length
    with store.open(REF, offset, length) as part:
        assert whole(part) == CONTENT[offset:end]


def test_the_same_content_is_stored_once(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"same")
    (tmp_path / "b").write_bytes(b"same")
    first, second = store.put_path(tmp_path / "a"), store.put_path(tmp_path / "b")
    assert first == second
    assert list(store.untouched(int(first.ref[7:9], 16), 0)) == [first.ref]
    assert (tmp_path / "a").read_bytes() == b"same"


def test_an_empty_file_is_a_file(store: Store) -> None:
    assert store.read(store.put(io.BytesIO()).ref) == b""


def test_what_is_not_there_is_missing(store: Store, tmp_path: Path) -> None:
    assert not store.exists(REF)
    with pytest.raises(ArtifactMissing, match=REF):
        store.path(REF, tmp_path)
    with pytest.raises(ArtifactMissing, match=REF), store.open(REF) as source:
        source.read()
    assert store.delete(REF)
    assert list(store.untouched(PART, 0)) == []


@pytest.mark.parametrize(
    "ref", ["", "sha256:", f"{REF}/..", "sha256:../../etc/passwd", REF.upper(), f"{REF}\n", "md5:0"]
)
def test_only_a_reference_becomes_a_name(store: Store, ref: str, tmp_path: Path) -> None:
    for use in (store.size, store.delete, store.exists, store.read, lambda ref: store.path(ref, tmp_path)):
        with pytest.raises(BadReference):
            use(ref)


def test_a_writer_that_breaks_off_leaves_nothing(store: Store) -> None:
    def broken() -> Iterator[bytes]:
        yield CONTENT
        raise ConnectionError

    with suppress(ConnectionError), store.writer() as writer:
        for data in broken():
            writer.write(data)
        writer.commit()
    assert not store.exists(REF)
    assert store.clean_up(0) == 0


def test_only_what_was_not_stored_for_a_time_is_deleted(store: Store) -> None:
    store.put(io.BytesIO(CONTENT))
    assert list(store.untouched(PART, HOUR)) == []
    assert not store.delete(REF, HOUR)
    assert store.read(REF, 4) == b"RIFF"
    assert store.delete(REF)
    assert not store.exists(REF)


def test_two_machines_see_each_others_files(store_url: str) -> None:
    ref = open_store(store_url).put(io.BytesIO(b"here")).ref
    assert open_store(store_url).read(ref) == b"here"


@pytest.mark.parametrize(
    "url", ["", "/srv/artifacts", "file://", "file:relative", "file://nas/share", "s3://", "ftp://x"]
)
def test_any_other_address_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="neither file:///folder nor s3://bucket/prefix"):
        open_store(url)


def test_references_are_found_in_a_result_without_decoding_it() -> None:
    other = f"sha256:{'0' * 64}"
    encoded = f'{{"a": "{REF}", "b": ["{other}", "sha256:short", "see {REF}"], "c": {{"$artifact": "{REF}"}}}}'.encode()
    assert references_in(encoded) == {REF, other}
    assert references_in(b'{"text": "no file"}') == set()


def test_only_a_result_that_is_nothing_else_lies_in_the_store() -> None:
    assert stored_value({"$artifact": REF, "size": 3}) == REF
    for other in ({"$artifact": REF, "text": "x"}, {"$artifact": "sha256:x"}, REF, None, {}):
        assert stored_value(other) is None
