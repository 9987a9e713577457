"""Certificates and kubeconfig files by which real clients reach the simulated API.

Owns keys, certificates and that file. It must not know the server.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = timedelta(days=365)
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True)
class Certificates:
    """A throw-away authority and a server certificate it signed; PEM bytes."""

    ca: bytes
    certificate: bytes
    key: bytes

    def server_context(self, folder: Path) -> ssl.SSLContext:
        """A TLS context for the server; the key is written to `folder` with mode 0600 on the way."""
        chain, key = folder / "server.crt", folder / "server.key"
        chain.write_bytes(self.certificate)
        _write_private(key, self.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(chain, key)
        return context

    def client_context(self) -> ssl.SSLContext:
        """A TLS context for a client that trusts this authority only."""
        return ssl.create_default_context(cadata=self.ca.decode())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _VALID)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def make_certificates(*extra_addresses: str) -> Certificates:
    """A fresh authority and a certificate for 127.0.0.1, ::1, localhost, the in-cluster names and `extra_addresses`."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("simcluster-ca")
    authority = (
        _builder(issuer, issuer, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    addresses = ["127.0.0.1", "::1", *extra_addresses]
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    server = (
        _builder(_name("kube-apiserver"), issuer, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificates(authority.public_bytes(pem), server.public_bytes(pem), private)


def _write_private(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def write_kubeconfig(path: Path, *, server: str, ca: bytes | None, token: str, context: str = "simcluster") -> None:
    """Write a kubeconfig with mode 0600; `ca` is None for a plain http server, to which kubectl sends no token."""
    cluster: dict[str, str] = {"server": server}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": cluster}],
        "users": [{"name": context, "user": {"token": token}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context, "namespace": "default"}}],
        "current-context": context,
    }
    _write_private(path, yaml.safe_dump(content, sort_keys=False).encode())
