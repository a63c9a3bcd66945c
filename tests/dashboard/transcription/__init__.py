"""Tests of the pages of transcriptions."""
