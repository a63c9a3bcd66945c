"""The Django project: settings, entry points, and the processes of development.

settings      all settings, from the environment
env           typed readers of environment variables
declared      the declaration of a DALSTON_* setting: name, check id, default, meaning, range
checks        system checks of the settings and the installation
apps, urls    the site as a Django app, and where each part is mounted
asgi          the web process as an application: HTTP by Django, WebSockets by Channels
web/          the server of the web process
static_files  static files in production
logs          structured logs
huey          the housekeeping's huey instance
notify        sends READY=1 to systemd or `./dev up`
manage        the command `dalston-manage`; version: what it is the version of
support/      `manage.py doctor` on a server, and the support bundle
postgres/     Django's Postgres backend behind a circuit breaker
embedded/     private Postgres and Valkey servers, for development and tests
up/           `./dev up`
"""
