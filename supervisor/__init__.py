"""The supervisor of a GPU node: starts engines, knows why each one ended, gives their work back. Needs Redis only."""
