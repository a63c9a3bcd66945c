"""Transcriptions over HTTP: uploads, reading, files, deletion, OpenAI's client."""
