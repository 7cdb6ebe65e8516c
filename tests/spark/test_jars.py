"""Java libraries by short names."""

import pytest

from barnabas.spark.errors import PipelineError
from barnabas.spark.jars import EXCLUDES, LIBRARIES, PACKAGES, SETTING, with_libraries
from tests.support.spark.jars import requires_s3a, s3a_jars


def test_name_is_expanded_to_packages_in_addition_to_those_given() -> None:
    settings = {SETTING: "s3a, postgres", PACKAGES: "a:b:1", EXCLUDES: "c:d", "spark.x": "y"}
    found = with_libraries(settings)
    assert found["spark.x"] == "y"
    expected = ["a:b:1", *LIBRARIES["s3a"].packages, *LIBRARIES["postgres"].packages]
    assert found[PACKAGES].split(",") == expected
    assert found[EXCLUDES].split(",")[:2] == ["c:d", "software.amazon.awssdk:bundle"]
    assert with_libraries({"spark.x": "y"}) == {"spark.x": "y"}


def test_a_name_that_is_none_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(PipelineError, match=r"'s3' .* libraries: delta, iceberg, postgres, s3a"):
        with_libraries({SETTING: "s3"})


@requires_s3a
def test_the_jars_for_s3_are_small() -> None:
    """`make java` has fetched them with `barnabas pipeline jars`."""
    assert sum(jar.stat().st_size for jar in s3a_jars()) < 16_000_000
