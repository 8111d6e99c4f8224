"""Seccomp filters: `allowlist` builds and installs them. The other files hold the calls of each process."""
