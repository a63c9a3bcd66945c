"""The Django project: settings, entry points, and the processes of development.

settings    all settings, from the environment
env         typed readers of environment variables
declared    the declaration of a DALSTON_* setting: name, check id, default, meaning, range
doctor      what `manage.py doctor` checks on a server; management/ has the command
checks      system checks of the settings and the installation
apps, urls  the site as a Django app, and where each part is mounted
web         the server of the web process
protocol    its HTTP connections: time limits of a head and a body
bodies      its request bodies: who may send a large one, and how much all together
asgi        the web process: HTTP and WebSockets
handler     serves a request in one step on a thread
logs        structured logs
huey        the housekeeping's huey instance
manage      the command `dalston-manage`; version: what it is the version of
notify      sends READY=1 to systemd or `./dev up`
postgres/   Django's Postgres backend behind a circuit breaker
embedded/   private Postgres and Valkey servers, for development and tests
up/         `./dev up`
"""
