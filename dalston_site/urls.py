"""URL paths of the admin, the API, the metrics and the dashboard."""

from django.contrib import admin
from django.urls import include, path

from dalston_queue.api.api import api
from dalston_queue.metrics.web import metrics

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", api.urls),
    path("metrics", metrics),
    path("", include("dalston_queue.dashboard.urls")),
]
