"""Accounts of people whom the provider knows: by subject, with the role of their groups, anew at each sign-in."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from dalston_queue.accounts.identities import Claimed, read
from dalston_queue.accounts.roles import Role, role_of
from dalston_queue.models import Identity, OperatorAction
from tests.dashboard.people import logged_in, person
from tests.dashboard.sign_in.conftest import Browser
from tests.oidc import Provider
from tests.tools.oidc_provider import ADA


def test_who_has_no_role_gets_in_nowhere_and_reads_why(
    provider: Provider, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    for groups in ([], ["cooks"], ["GPU-OPS"], "cooks", {"gpu-ops": True}, None, [["gpu-ops"], 7]):
        provider.control(claims={**ADA, "groups": groups})
        status, _, page = browser.sign_in()
        assert status == 403
        assert "knows you as <bdi>ada</bdi>, but none of your groups there has a role here" in page
        assert not browser.is_in()
    assert not User.objects.exists()
    refused = [record.msg for record in caplog.records if "sign_in.refused" in str(record.msg)]
    assert refused[1]["groups"] == ("cooks",), "an admin sees what the provider sent"


@pytest.mark.parametrize(
    ("groups", "role", "is_superuser"),
    [
        (["staff"], Role.VIEWER, False),
        (["staff", "gpu-ops"], Role.OPERATOR, False),
        (["gpu-admins", "staff"], Role.ADMIN, False),
        ("gpu-ops", Role.OPERATOR, False),
        (["gpu-ops", "platform"], Role.ADMIN, True),
    ],
)
def test_the_highest_role_of_the_groups_counts(
    provider: Provider, browser: Browser, groups: object, role: Role, is_superuser: bool
) -> None:
    provider.control(claims={**ADA, "groups": groups})
    assert browser.sign_in()[0] == 302
    user = User.objects.get()
    assert (role_of(user), user.is_superuser) == (role, is_superuser)


def test_no_claim_makes_a_superuser_unless_a_group_is_named_for_it(
    provider: Provider, browser: Browser, settings: Settings
) -> None:
    settings.DALSTON_OIDC_ROLES = {"gpu-ops": "operator"}
    provider.control(claims={**ADA, "groups": ["gpu-ops", "superuser", "platform"], "is_superuser": True})
    assert browser.sign_in()[0] == 302
    assert not User.objects.get().is_superuser


def test_a_role_changes_at_the_next_sign_in_and_it_is_on_record(provider: Provider, browser: Browser) -> None:
    browser.sign_in()
    provider.control(claims={**ADA, "groups": ["gpu-admins"]})
    assert role_of(User.objects.get()) is Role.OPERATOR, "not before"
    assert Browser().sign_in()[0] == 302
    assert role_of(User.objects.get()) is Role.ADMIN
    row = OperatorAction.objects.get(action="user.change")
    assert (row.target, row.actor) == ("ada", f"provider {provider.issuer}")
    assert (row.before["groups"], row.after["groups"]) == (["operator"], ["admin"])
    Browser().sign_in()
    assert OperatorAction.objects.filter(action="user.change").count() == 1, "what stays is not on record again"


def test_who_has_lost_the_role_loses_the_open_sessions_too_and_comes_back_with_one(
    provider: Provider, browser: Browser
) -> None:
    browser.sign_in()
    provider.control(claims={**ADA, "groups": []})
    assert Browser().sign_in()[0] == 403
    assert not browser.is_in(), "the session that was open elsewhere"
    user = User.objects.get()
    assert not user.is_active and not user.groups.exists()
    row = OperatorAction.objects.get(action="user.change")
    assert (row.before["is_active"], row.after["is_active"]) == (True, False)
    provider.control(claims={**ADA, "groups": ["staff"]})
    assert browser.sign_in()[0] == 302
    assert role_of(User.objects.get()) is Role.VIEWER


def test_an_account_that_an_admin_deactivated_stays_so(provider: Provider, browser: Browser) -> None:
    browser.sign_in()
    User.objects.update(is_active=False)
    for groups in (["gpu-ops"], [], ["gpu-ops"]):
        provider.control(claims={**ADA, "groups": groups})
        assert browser.sign_in()[0] == 403
        assert not User.objects.get().is_active
    assert "is deactivated here" in browser.sign_in()[2]


def test_the_admin_shows_who_signs_in_by_the_provider_and_an_admins_hand_lasts(
    provider: Provider, browser: Browser
) -> None:
    browser.sign_in()
    user, root = User.objects.get(), logged_in("root", Role.ADMIN)
    path = f"/admin/auth/user/{user.pk}/change/"
    assert f"{ADA['sub']} at {provider.issuer}: its groups there decide the role" in root.get(path).content.decode()
    provider.control(claims={**ADA, "groups": []})
    Browser().sign_in()
    assert "suspended until a sign-in with a role" in root.get(path).content.decode()
    for fields in ({"is_active": "on"}, {}):
        assert root.post(path, {"username": "ada", "groups": [], **fields}).status_code == 302
    provider.control()
    assert Browser().sign_in()[0] == 403
    assert not User.objects.get(username="ada").is_active


@pytest.mark.parametrize("name", ["ada", "ADA"])
def test_a_name_alone_opens_no_account_that_exists(provider: Provider, browser: Browser, name: str) -> None:
    person(name, Role.ADMIN)
    status, _, page = browser.sign_in()
    assert status == 403 and f"There is another account named <bdi>{name}</bdi> here" in page
    assert not browser.is_in() and not Identity.objects.exists()


def test_the_subject_is_the_person_whatever_the_name(provider: Provider, browser: Browser) -> None:
    browser.sign_in()
    provider.control(claims={**ADA, "preferred_username": "ada.lovelace"})
    assert Browser().sign_in()[0] == 302
    assert User.objects.get().username == "ada", "the name on record stays"
    provider.control(claims={**ADA, "sub": "another", "groups": ["gpu-admins"]})
    assert Browser().sign_in()[0] == 403, "and who gets the name later is another person"


def test_names_are_trusted_where_the_setting_says_so(provider: Provider, browser: Browser, settings: Settings) -> None:
    settings.DALSTON_OIDC_LINK_BY_NAME = True
    local = person("ada", Role.ADMIN)
    elsewhere = Client()
    elsewhere.force_login(local)
    assert browser.sign_in()[0] == 302
    assert role_of(User.objects.get()) is Role.OPERATOR, "the provider's groups decide from now on"
    row = OperatorAction.objects.get(action="user.link")
    assert (row.before["groups"], row.after["groups"], row.after["subject"]) == (["admin"], ["operator"], ADA["sub"])
    provider.control(claims={**ADA, "sub": "another"})
    assert Browser().sign_in()[0] == 403, "an account that is linked is not linked again"


def test_a_local_superuser_is_never_linked_by_name(provider: Provider, browser: Browser, settings: Settings) -> None:
    settings.DALSTON_OIDC_LINK_BY_NAME = True
    User.objects.create_superuser("ada")
    assert browser.sign_in()[0] == 403
    assert User.objects.get().is_superuser


def test_people_of_a_provider_that_moved_are_linked_anew(
    provider: Provider, browser: Browser, settings: Settings
) -> None:
    browser.sign_in()
    Identity.objects.update(issuer="https://before.example")
    assert Browser().sign_in()[0] == 403
    settings.DALSTON_OIDC_LINK_BY_NAME = True
    assert Browser().sign_in()[0] == 302
    assert Identity.objects.get().issuer == provider.issuer


@pytest.mark.parametrize("name", ["ada lovelace", "a" * 151, "ada\n", "<b>", "", None, 7])
def test_a_name_that_no_account_can_have_is_refused(provider: Provider, browser: Browser, name: object) -> None:
    provider.control(claims={**ADA, "preferred_username": name})
    status, _, page = browser.sign_in()
    if name == "ada\n":
        assert status == 302 and User.objects.get().username == "ada", "blanks around it are no part of it"
    else:
        assert status == 403 and "gave no name that an account can have" in page
        assert not User.objects.exists()


def test_groups_may_stand_in_the_userinfo_only(provider: Provider, browser: Browser) -> None:
    provider.control(claims={"sub": ADA["sub"]}, userinfo={**ADA, "groups": ["gpu-admins"]})
    assert browser.sign_in()[0] == 302
    assert role_of(User.objects.get()) is Role.ADMIN
    assert "/userinfo" in provider.seen()


def test_the_userinfo_of_another_person_is_not_believed(provider: Provider, browser: Browser) -> None:
    provider.control(claims={"sub": ADA["sub"]}, userinfo={**ADA, "sub": "another"})
    assert browser.sign_in()[0] == 502
    assert not User.objects.exists()


def test_a_claim_may_be_inside_another_and_its_name_may_have_dots(settings: Settings) -> None:
    settings.DALSTON_OIDC_ROLES_CLAIM = "realm_access.roles"
    claims = {"iss": "https://a.example", "sub": "1", "realm_access": {"roles": ["x"]}}
    assert read(claims) == Claimed("https://a.example", "1", "", ("x",))
    assert read({**claims, "realm_access.roles": ["y"]}).groups == ("y",)
    assert read({**claims, "realm_access": "text"}).groups == ()


def test_sign_out_ends_the_session_here_and_offers_the_one_there(provider: Provider, browser: Browser) -> None:
    browser.sign_in()
    page = browser.client.post("/logout/", follow=True)
    text = " ".join(page.content.decode().split())
    assert "may still be signed in at Example &amp; Co" in text and not browser.is_in()
    there = browser.client.get("/login/provider/sign-out/")["Location"]
    assert there.startswith(f"{provider.issuer}/sign-out?post_logout_redirect_uri=http%3A%2F%2Ftestserver%2Flogin%2F")


def test_without_local_login_only_the_provider_lets_in(
    provider: Provider, browser: Browser, settings: Settings
) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    User.objects.create_user("root", password="a long pass phrase")
    settings.DALSTON_LOCAL_LOGIN = False
    page = Client().get("/login/").content.decode()
    assert 'type="password"' not in page and 'href="/login/provider/"' in page
    assert Client().post("/login/", {"username": "root", "password": "a long pass phrase"}).status_code == 403
    assert browser.sign_in()[0] == 302


def test_the_password_of_the_provider_is_not_changed_here(provider: Provider, browser: Browser) -> None:
    browser.sign_in()
    page = browser.client.get("/password/").content.decode()
    assert (
        "You sign in by Example &amp; Co, which keeps your password" in page and "<input" not in page.split("<main")[1]
    )
    fields = {"old_password": "", "new_password1": "a long pass phrase", "new_password2": "a long pass phrase"}
    assert browser.client.post("/password/", fields).status_code == 403
    assert not User.objects.get().has_usable_password()
