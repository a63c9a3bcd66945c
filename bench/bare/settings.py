"""Settings as `django-admin startproject` writes them; the database with its pool and the log as in Dalston."""

from dalston_site import settings as dalston

SECRET_KEY = dalston.SECRET_KEY
ALLOWED_HOSTS = dalston.ALLOWED_HOSTS
DATABASES = dalston.DATABASES
DEFAULT_AUTO_FIELD = dalston.DEFAULT_AUTO_FIELD
LOGGING = dalston.LOGGING
DALSTON_MAX_WAITING_POLLS = dalston.DALSTON_MAX_WAITING_POLLS  # read by our handler
DALSTON_MAX_UPLOADS = dalston.DALSTON_MAX_UPLOADS  # the same
USE_TZ = True
ROOT_URLCONF = "bench.bare.urls"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "bench.bare",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "static/"
