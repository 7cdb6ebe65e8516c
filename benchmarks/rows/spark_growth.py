"""Reading with Spark as the number of records and of partitions grows."""

from collections.abc import Callable

from benchmarks.model import BARNABAS, Row, Subject, Target
from benchmarks.rows.common import RATE
from benchmarks.rows.growth import FLAT
from benchmarks.rows.spark import count, fill_events, timed
from benchmarks.session import Session
from benchmarks.subjects.spark import CONNECTOR, OURS, THEIRS

FEW_RECORDS, MANY_RECORDS, PARTITIONS = 1_000_000, 20_000_000, 6
ONE_PARTITION, MANY_PARTITIONS, RECORDS = 1, 64, 5_000_000
SMALL, LARGE = "small", "large"  # labels of the two topics of a row


def prepare(small: tuple[int, int], large: tuple[int, int]) -> Callable[[Session], None]:
    """(records, partitions) of each topic."""

    def fill(session: Session) -> None:
        fill_events(session, SMALL, *small)
        fill_events(session, LARGE, *large)

    return fill


def subjects(small: str, large: str) -> tuple[Subject, ...]:
    """Both formats on both topics."""
    return tuple(
        timed(f"{name}, {size}", count(source), label)
        for name, source in ((CONNECTOR, THEIRS), (BARNABAS, OURS))
        for size, label in ((small, SMALL), (large, LARGE))
    )


def no_slower(small: str, large: str) -> tuple[Target, ...]:
    """Fixed costs of a query are spread over more rows: the rate may rise but must not fall."""
    rate = Target(
        "rate", ">=", 1 - FLAT, f"{BARNABAS}, {small}", f"{BARNABAS}, {large}", or_within_spread=True
    )
    return (rate,)


def growth_row(name: str, title: str, sizes: tuple[str, str], fill: Callable[[Session], None]) -> Row:
    return Row(name, title, subjects(*sizes), (RATE,), no_slower(*sizes), prepare=fill)


ROWS = (
    growth_row(
        "spark-growth-records",
        "Spark: 20 M records compared with 1 M",
        ("1 M records", "20 M records"),
        prepare((FEW_RECORDS, PARTITIONS), (MANY_RECORDS, PARTITIONS)),
    ),
    growth_row(
        "spark-growth-partitions",
        "Spark: 64 partitions compared with one",
        ("1 partition", "64 partitions"),
        prepare((RECORDS, ONE_PARTITION), (RECORDS, MANY_PARTITIONS)),
    ),
)
