"""Submit."""
