"""Support of an installation: what is wrong with it, and an archive for those who help.

doctor     checks of a server, each with what to do about it
bundle     the support bundle, an archive without payloads and secrets
parts      what is in it
log_lines  our own lines of the engines' logs
secrets    secrets, struck out of a text
"""
