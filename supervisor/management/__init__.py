"""Commands of `manage.py` on a node, in commands/."""
