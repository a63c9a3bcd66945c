"""The artifact store: the same tests on a folder and on a real S3 server."""
