"""The dashboard's addresses."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from dalston_queue.dashboard import audit_views, job_views, views
from dalston_queue.dashboard.healthz import healthz

app_name = "dashboard"
_login = LoginView.as_view(template_name="dashboard/login.html", redirect_authenticated_user=True)
urlpatterns = [
    path("", views.overview, name="overview"),
    path("jobs/<uuid:job_id>/", job_views.job, name="job"),
    path("jobs/<uuid:job_id>/cancel/", job_views.cancel, name="cancel-job"),
    path("tasks/<uuid:task_id>/", job_views.task, name="task"),
    path("audit/", audit_views.audit, name="audit"),
    path("audit/export.<str:kind>", audit_views.export, name="audit-export"),
    path("login/", _login, name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("healthz", healthz, name="healthz"),
    path("favicon.ico", views.favicon, name="favicon"),
]
