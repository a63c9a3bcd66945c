"""Engines. They need Redis only: no Django, no database.

sdk    the SDK that engines are built on
demo   an engine for trying things out
"""
