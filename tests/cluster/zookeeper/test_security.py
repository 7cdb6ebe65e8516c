"""Credentials, ACLs and TLS with a real ZooKeeper that requires them."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.cluster.zookeeper.process import ZooKeeperProcess
from barnabas.cluster.zookeeper.session import ZooKeeper
from barnabas.cluster.zookeeper.settings import ZooKeeperSasl, ZooKeeperTls
from barnabas.cluster.zookeeper.types import ZooKeeperUnusableError
from tests.cluster.zookeepers import member, session, settings
from tests.support.programs import free_port
from tests.support.zookeeper import require_zookeeper

JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_barnabas="secret";
};
"""
DIGEST = "barnabas:secret"


def certificate(folder: Path, name: str) -> Path:
    """A certificate that vouches for itself, with its key, in one PEM file."""
    key, cert, both = (folder / f"{name}-{part}.pem" for part in ("key", "cert", "both"))
    request = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {cert} -subj /CN={name}"
    names = ("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    subprocess.run([*request.split(), *names], check=True, capture_output=True)
    both.write_text(key.read_text() + cert.read_text())
    return both


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_zookeeper()
    if shutil.which("openssl") is None:
        pytest.skip("no `openssl` on PATH to make certificates with")
    return tmp_path_factory.mktemp("security")


@pytest.fixture(scope="module")
def server_certificate(folder: Path) -> Path:
    return certificate(folder, "zookeeper")


@pytest.fixture(scope="module")
def client_certificate(folder: Path) -> Path:
    return certificate(folder, "broker")


@pytest.fixture(scope="module")
def secure(folder: Path, server_certificate: Path, client_certificate: Path) -> Iterator[ZooKeeperProcess]:
    """Plain on `port` with SASL, TLS with client certificates on `secureClientPort`."""
    jaas = folder / "jaas.conf"
    jaas.write_text(JAAS)
    process = ZooKeeperProcess(
        folder / "zookeeper",
        settings={
            "secureClientPort": str(free_port()),
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "ssl.keyStore.location": str(server_certificate),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(client_certificate),
            "ssl.trustStore.type": "PEM",
            "ssl.clientAuth": "need",
        },
        java_flags=(f"-Djava.security.auth.login.config={jaas}",),
    )
    with process:
        yield process


@pytest.fixture
def tls_address(secure: ZooKeeperProcess) -> str:
    return f"127.0.0.1:{secure._settings['secureClientPort']}/tls"


def test_nodes_of_a_broker_with_credentials_are_writable_only_by_it(root: str) -> None:
    async def scenario() -> None:
        async with member(root, 1, digest=DIGEST, set_acl=True) as one, session(root) as stranger:
            await one.store.load()
            await one.join()
            epoch = await one.be_elected()
            await one.store.append(0, epoch, [])
            assert b"9092" in (await stranger.get("/brokers/ids/1")).data  # as in Kafka: no secret
            for path in ("/barnabas/head", "/barnabas/log/0000000001"):
                with pytest.raises(ZooKeeperUnusableError, match="credentials"):
                    await stranger.get(path)
            for path in ("/brokers/ids/1", "/controller", "/controller_epoch", "/barnabas"):
                with pytest.raises(ZooKeeperUnusableError, match="credentials"):
                    await stranger.set(path, b"mischief")
            async with member(root, 2, digest=DIGEST, set_acl=True) as two:
                assert (await two.store.load()).offset == 1

    asyncio.run(scenario())


def test_sasl_digest_credentials_are_used(secure: ZooKeeperProcess) -> None:
    sasl = ZooKeeperSasl("DIGEST-MD5", "barnabas", "secret")

    async def scenario() -> None:
        connect = f"{secure.address}/sasl"
        async with session(connect, sasl=sasl, set_acl=True) as zk, session(connect) as stranger:
            await zk.create("/secret", b"x")
            assert (await zk.get("/secret")).data == b"x"
            with pytest.raises(ZooKeeperUnusableError, match="credentials"):
                await stranger.get("/secret")

    asyncio.run(scenario())


def test_a_wrong_sasl_password_is_refused_with_a_reason(secure: ZooKeeperProcess) -> None:
    async def scenario() -> None:
        zk = ZooKeeper(
            settings(f"{secure.address}/sasl", sasl=ZooKeeperSasl("DIGEST-MD5", "barnabas", "wrong"))
        )
        with pytest.raises(ZooKeeperUnusableError, match=r"refused our credentials.*sasl\.username"):
            await zk.start()

    asyncio.run(scenario())


def test_tls_with_a_certificate_of_our_own(
    tls_address: str, server_certificate: Path, client_certificate: Path
) -> None:
    tls = ZooKeeperTls(str(server_certificate), str(client_certificate))

    async def scenario() -> None:
        async with session(tls_address, tls=tls) as zk:
            await zk.create("/a", b"x")
            assert (await zk.get("/a")).data == b"x"

    asyncio.run(scenario())


@pytest.mark.parametrize("mistake", ["no TLS", "unknown authority", "no certificate of our own"])
def test_without_the_right_certificates_there_is_no_session(
    mistake: str, tls_address: str, server_certificate: Path, client_certificate: Path
) -> None:
    tls = {
        "no TLS": None,
        "unknown authority": ZooKeeperTls(str(client_certificate), str(client_certificate)),
        "no certificate of our own": ZooKeeperTls(str(server_certificate)),
    }[mistake]

    async def scenario() -> None:
        zk = ZooKeeper(replace(settings(tls_address, tls=tls), connection_timeout=2))
        with pytest.raises(ZooKeeperUnusableError, match="cannot be used"):
            await zk.start()

    asyncio.run(scenario())
