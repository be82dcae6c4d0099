"""What makes the programs of a sandbox trust a recording's authority: variables, and files that land in no layer."""

from __future__ import annotations

from typing import Final

__all__ = ["TRUST_FILES", "trust_environment", "trust_files"]

CERTIFICATE: Final = "/dev/termarena-ca.crt"
"""Beside the devices: neither a layer, nor a snapshot, nor a diff has it."""
APT_SETTINGS: Final = "/dev/termarena-apt.conf"
WGET_SETTINGS: Final = "/dev/termarena-wgetrc"
TRUST_FILES: Final = (CERTIFICATE, APT_SETTINGS, WGET_SETTINGS)
BUNDLE_VARIABLES: Final = (
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
)


def trust_environment() -> dict[str, str]:
    """The variables by which programs find the certificate."""
    found = dict.fromkeys(BUNDLE_VARIABLES, CERTIFICATE)
    return {**found, "APT_CONFIG": APT_SETTINGS, "WGETRC": WGET_SETTINGS}


def trust_files(certificate: bytes, *, has_users: bool) -> dict[str, bytes]:
    """The files that these variables name; `has_users`: whether apt can become another user than root."""
    apt = [f'Acquire::https::CaInfo "{CERTIFICATE}";', 'Acquire::Check-Valid-Until "false";']
    apt += ['Acquire::http::Pipeline-Depth "0";', 'Acquire::By-Hash "yes";']
    apt += [] if has_users else ['APT::Sandbox::User "root";']
    return {
        CERTIFICATE: certificate,
        APT_SETTINGS: "".join(f"{line}\n" for line in apt).encode(),
        WGET_SETTINGS: f"ca_certificate = {CERTIFICATE}\n".encode(),
    }
