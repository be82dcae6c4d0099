"""An authority for certificates that lives as long as one sandbox: its keys are in memory only."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import ssl
import tempfile
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

__all__ = ["Authority"]

DAY: Final = dt.timedelta(days=1)
LONGEST_NAME: Final = 64


class Authority:
    """Certifies any host to clients that trust `certificate`."""

    def __init__(self) -> None:
        """Makes two keys."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._own = self._certify_itself()
        self._contexts: dict[str, ssl.SSLContext] = {}

    @property
    def certificate(self) -> bytes:
        """PEM."""
        return self._own.public_bytes(Encoding.PEM)

    def context_for(self, host: str) -> ssl.SSLContext:
        """How a server of this name speaks TLS. Raises `ValueError` for what is no name of a host."""
        if host not in self._contexts:
            key = self._leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            chain = self._certify(host).public_bytes(Encoding.PEM) + self.certificate
            self._contexts[host] = _context(chain + key)
        return self._contexts[host]

    def _certify_itself(self) -> x509.Certificate:
        public = self._key.public_key()
        name = _named("TermArena recorded fetches")
        builder = _begun(name, issuer=name).public_key(public)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(is_authority=True), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _certify(self, host: str) -> x509.Certificate:
        builder = _begun(_named(host[:LONGEST_NAME]), issuer=self._own.subject)
        builder = builder.public_key(self._leaf_key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName([_known_as(host)]), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(is_authority=False), critical=True)
        purpose = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(purpose, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())


def _known_as(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host.encode("idna").decode("ascii"))


def _begun(subject: x509.Name, *, issuer: x509.Name) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
    # Tests may set another date than this machine's.
    builder = builder.not_valid_before(now - 30 * DAY).not_valid_after(now + 365 * DAY)
    return builder.serial_number(x509.random_serial_number())


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, text)])


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _context(pem: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    # The interface of `ssl` takes files only.
    with tempfile.TemporaryDirectory(prefix="termarena-") as folder:
        path = Path(folder) / "leaf.pem"
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
        context.load_cert_chain(path)
    return context
