from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.services.ingest.http.keys import KeyStore, Used, digests

Stored = dict[str, bytes]


def write(store: KeyStore, stored: Stored, keys: list[str], now: float) -> None:
    used = [digests(key, key.encode(), 1) for key in keys]
    number, positions = store.store(used, now)
    for name, value in positions.items():
        if value is None:
            stored.pop(name, None)
        else:
            stored[name] = value
    store.stored(number, used, now)


def knows(store: KeyStore, key: str, now: float) -> bool:
    return store.find(digests(key, b"", 0).key, now) is not None


def test_a_key_is_known_with_its_body_and_count_until_its_time_is_over() -> None:
    store = KeyStore(10, 60)
    used = digests("k", b"body", 3)
    number, _ = store.store([used], 100.0)
    assert not knows(store, "k", 100.0)
    store.stored(number, [used], 100.0)
    assert store.find(used.key, 159.0) == used
    assert store.find(used.key, 161.0) is None


def test_the_oldest_go_when_there_are_too_many() -> None:
    store, stored = KeyStore(3, 1000), Stored()
    for number in range(10):
        write(store, stored, [f"k{number}"], float(number))
    assert [knows(store, f"k{number}", 10.0) for number in range(10)] == [False] * 7 + [True] * 3
    assert len(store) == len(stored) == 3


def test_key_reused_after_its_expiry_counts_as_new() -> None:
    store, stored = KeyStore(10, 5), Stored()
    write(store, stored, ["k"], 0.0)
    write(store, stored, ["other"], 1.0)
    write(store, stored, ["k"], 8.0)
    write(store, stored, [], 9.0)
    assert knows(store, "k", 9.0)
    assert not knows(store, "other", 9.0)


def test_many_keys_and_no_more() -> None:
    store, stored = KeyStore(100_000, 1e9), Stored()
    for start in range(0, 120_000, 20_000):
        used = [Used(number.to_bytes(16), bytes(8), 1) for number in range(start, start + 20_000)]
        number, positions = store.store(used, 0)
        stored = {name: value for name, value in {**stored, **positions}.items() if value is not None}
        store.stored(number, used, 0)
    assert len(store) == 100_000
    again = KeyStore(100_000, 1e9)
    again.load(stored)
    found = [again.find(number.to_bytes(16), 0) is not None for number in (19_999, 20_000, 119_999)]
    assert found == [False, True, True]


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from("abcdefgh"), max_size=3, unique=True), st.integers(0, 9)),
        max_size=30,
    )
)
def test_stored_state_equals_the_state_in_memory(steps: list[tuple[list[str], int]]) -> None:
    store, stored, now = KeyStore(5, 20), Stored(), 0.0
    for keys, pause in steps:
        now += pause
        write(store, stored, [key for key in keys if not knows(store, key, now)], now)
        again = KeyStore(5, 20)
        again.load(stored)
        assert {key for key in "abcdefgh" if knows(again, key, now)} == {
            key for key in "abcdefgh" if knows(store, key, now)
        }
        assert len(store) <= 5 + 3
