"""Engines. No Django here: they run where only Redis is.

sdk    what an engine is built on
demo   an engine for trying things out
"""
