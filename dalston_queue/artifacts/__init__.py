"""Artifacts: files that are named by the digest of their content, in a folder or in S3. No Django.

    store = open_store("file:///srv/dalston/artifacts")
    artifact = store.put_path(Path("speech.wav"))     # Artifact(ref="sha256:…", size=…)
    with store.open(artifact.ref, offset=44) as file: ...

A file is written under a temporary name and renamed when it is whole, so each name that exists has its whole content,
and nothing is ever changed: a late engine can store files, but only references in accepted results count.

store       what every store can do, and `open_store`
folder      a folder, perhaps shared by the machines
s3          a bucket of S3, or of a server that speaks its protocol; needs the extra `s3`
reference   `sha256:<64 hex digits>`, as text and in a JSON result
errors      why a store can't do what it was asked
"""

from .errors import ArtifactError, ArtifactMissing, BadReference, StoreError
from .reference import Artifact, digest_of, is_reference
from .store import Store, Writer, open_store

__all__ = [
    "Artifact",
    "ArtifactError",
    "ArtifactMissing",
    "BadReference",
    "Store",
    "StoreError",
    "Writer",
    "digest_of",
    "is_reference",
    "open_store",
]
