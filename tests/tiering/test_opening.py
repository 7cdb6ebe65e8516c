"""Opening a store by URL, and error messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.common.installation import extra_command
from barnabas.config.setting import ConfigError
from barnabas.tiering.stores.opening import open_store

SECRET = "a-very-secret-key"


def test_a_url_names_a_store_and_its_prefix(tmp_path: Path) -> None:
    assert repr(open_store(f"file://{tmp_path}", {})) == f"FolderStore({tmp_path})"
    region = {"region": "eu-central-1"}
    assert repr(open_store("s3://bucket/a/b/", region)) == "ObstoreStore(s3://bucket/a/b)"
    google = open_store("gs://bucket", {"skip_signature": "true"})
    assert repr(google) == "ObstoreStore(gs://bucket/)"
    azure = open_store("az://container/a", {"account_name": "someone", "account_key": "c2VjcmV0"})
    assert repr(azure) == "ObstoreStore(az://container/a)"


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("", "use s3://BUCKET/PREFIX"),
        ("bucket", "use s3://BUCKET/PREFIX"),
        ("ftp://bucket", "use s3://BUCKET/PREFIX"),
        ("S3:/bucket", "has no bucket"),
        ("s3://", "has no bucket"),
        ("s3:///prefix", "has no bucket"),
        ("s3://buc ket", "has no bucket"),
        ("s3://bucket:9000/x", "has no bucket"),
        ("s3://[bucket", "is not a valid URL"),
        ("s3://bucket/a//b", "the prefix may contain"),
        ("s3://bucket/a b", "the prefix may contain"),
        (f"s3://key:{SECRET}@bucket", "must not contain credentials"),
        (f"s3://bucket?sig={SECRET}", "must not contain ?"),
        ("file://folder", "with three slashes"),
        ("file:///", "has no folder"),
        ("file:///no/such/folder", "Create it, or mount its disk"),
    ],
)
def test_invalid_url_is_rejected_with_a_hint_and_without_secrets(url: str, advice: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        open_store(url, {})
    assert advice in str(refusal.value)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "response"),
    [
        ({"colour": "red"}, "'colour' is not valid"),
        ({"virtual_hosted_style_request": SECRET}, "rsm.config"),
        ({"allow_http": SECRET}, "rsm.config"),
        ({"bucket": "another"}, "in barnabas.remote.storage.url only"),
        ({"connect_timeout": SECRET}, "rsm.config"),
    ],
)
def test_an_option_that_the_store_does_not_have_is_named(options: dict[str, str], response: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        open_store("s3://bucket", options)
    assert response in str(refusal.value)
    assert SECRET not in str(refusal.value)
    assert "Debug source" not in str(refusal.value)


def test_missing_extra_is_reported_with_the_command() -> None:
    program = """
import sys
sys.modules["obstore"] = None
from barnabas.tiering.stores.opening import open_store
try:
    open_store("s3://bucket", {})
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert extra_command("tiering") in done.stdout
