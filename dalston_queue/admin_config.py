"""Django's admin with our site in it. Not in apps.py: Django takes an app's only configuration from there."""

from django.contrib.admin.apps import AdminConfig


class DalstonAdminConfig(AdminConfig):
    # Not inside dalston_queue/admin: importing that package registers pages with the site that is being made.
    default_site = "dalston_queue.admin_site.DalstonAdminSite"
