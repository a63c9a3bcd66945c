"""URL paths of the admin, the API, the metrics and the dashboard."""

from django.contrib import admin
from django.urls import include, path

from dalston_queue.api.api import api
from dalston_queue.metrics.web import metrics

# OpenAI's clients put /v1 before these paths.
openai_urls = [route for route in api.urls[0] if str(route.pattern).startswith(("audio/", "models"))]

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("v1/", include(openai_urls)),
    path("metrics", metrics),
    path("", include("dalston_queue.dashboard.urls")),
]
