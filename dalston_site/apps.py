"""The site as a Django app, so that its system checks are registered on servers and on nodes."""

from django.apps import AppConfig


class SiteConfig(AppConfig):
    name = "dalston_site"
    verbose_name = "Dalston"

    def ready(self) -> None:
        from dalston_site import checks

        checks.register()
