"""The Django project: settings, checks, URLs, the ASGI entry, private servers and `./dev up`."""
