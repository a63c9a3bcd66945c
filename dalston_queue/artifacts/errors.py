"""Errors of the artifact store.

ArtifactError
├── BadReference      a text that is no reference: permanent
├── ArtifactMissing   nothing is stored under the reference: permanent
└── StoreError        the store can't be used right now, or as it is configured
"""


class ArtifactError(Exception):
    pass


class BadReference(ArtifactError):
    pass


class ArtifactMissing(ArtifactError):
    pass


class StoreError(ArtifactError):
    pass
