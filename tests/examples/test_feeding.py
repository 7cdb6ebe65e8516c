"""The services of the shop have incidents in demos of any length."""

from barnabas.pipelines.library.operations.generator import INCIDENTS
from examples.demo.feeding import HOUR, incidents_within


def test_an_hour_has_the_incidents_of_the_generator() -> None:
    assert incidents_within(3600) == INCIDENTS


def test_a_short_time_has_all_of_them_but_shorter() -> None:
    found = incidents_within(600)
    assert [each.service for each in found] == [each.service for each in INCIDENTS]
    assert all(each.begin < each.end < 600_000 for each in found)


def test_a_long_time_has_them_each_hour() -> None:
    found = incidents_within(5 * 3600)
    assert len(found) == 5 * len(INCIDENTS)
    assert found[-1].begin == 4 * HOUR + INCIDENTS[-1].begin
