"""Fixtures of the dashboard's tests."""

import pytest
from django.contrib.auth.models import User


@pytest.fixture
def admin_user(db: None) -> User:
    """Without a password: hashing one takes longer than most tests."""
    return User.objects.create_superuser("admin", password=None)
