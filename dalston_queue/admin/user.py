"""Admin pages of users and their roles. An account is deactivated, not deleted: the audit trail points at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth import admin as auth_admin  # registers its own pages, which ours replace
from django.contrib.auth.models import Group, User
from django.http import HttpRequest

from dalston_queue.accounts.roles import Role, person, role_of
from dalston_queue.audit.record import audited
from dalston_queue.models import Identity

if TYPE_CHECKING:
    DjangosUserAdmin = auth_admin.UserAdmin[User]
else:
    DjangosUserAdmin = auth_admin.UserAdmin

admin.site.unregister(User)
admin.site.unregister(Group)  # the groups are the roles: renaming one would lock its users out


@admin.register(User)
class UserAdmin(DjangosUserAdmin):
    list_display = ["username", "role", "is_active", "last_login"]
    list_filter = ["is_active", "groups"]
    filter_horizontal = ["groups"]
    fieldsets = [
        (None, {"fields": ["username", "password"]}),
        ("Person", {"fields": ["first_name", "last_name", "email"]}),
        (
            "Role",
            {
                "fields": ["is_active", "groups"],
                "description": "The highest group counts; without one, a viewer. A superuser is an admin.",
            },
        ),
        ("Sign-in", {"fields": ["signs_in_as"]}),
        ("Dates", {"fields": ["last_login", "date_joined"]}),
    ]
    readonly_fields = ["last_login", "date_joined", "signs_in_as"]

    @admin.display(description="signs in as")
    def signs_in_as(self, user: User) -> str:
        identity = Identity.objects.filter(user=user).first()
        if identity is None:
            return "this name, with a password"
        suspended = "; suspended until a sign-in with a role" if identity.is_suspended else ""
        return f"{identity}: its groups there decide the role, at each sign-in{suspended}"

    @admin.display(description="role")
    def role(self, user: User) -> str:
        return role_of(user)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        if db_field.name == "groups":
            options["queryset"] = Group.objects.filter(name__in=list(Role))
        return super().formfield_for_manytomany(db_field, request, **options)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """A password that an admin sets has a page of its own, which does not call `save_related`."""
        match = request.resolver_match
        if match is not None and match.url_name == "auth_user_password_change":
            with audited("user.password", obj.get_username(), **person(request)) as row:
                row.after = {"password": "changed"}
        return super().log_change(request, obj, message)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Writes the groups, and an audit entry with the account's groups before and after."""
        user: User = form.instance
        active = {"is_active": form.initial.get("is_active", user.is_active)}
        before = {**active, "groups": _groups(user)} if change else None
        action = "user.change" if change else "user.create"
        with audited(action, user.get_username(), **person(request), before=before) as row:
            super().save_related(request, form, formsets, change)
            if "is_active" in form.changed_data:  # from now on by an admin's hand
                Identity.objects.filter(user=user).update(is_suspended=False)
            row.after = {"is_active": user.is_active, "groups": _groups(user)}


def _groups(user: User) -> list[str]:
    return sorted(user.groups.values_list("name", flat=True))
