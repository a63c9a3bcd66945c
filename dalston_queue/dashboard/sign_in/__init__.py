"""Sign-in by an OpenID Connect provider, where one is configured (docs/operate/sign-in.md).

views         to the provider and back, and its sign-out; the page of a sign-in that failed
provider      the provider: Authlib, with every check of its answers
"""
