import pytest

from barnabas.client.addresses import Address, parse_address, parse_addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        ("kafka.example", Address("kafka.example", 9092)),
        ("[::1]:9093", Address("::1", 9093)),
        ("[::1]", Address("::1", 9092)),
        ("::1", Address("::1", 9092)),
        ("PLAINTEXT://10.0.0.1:1", Address("10.0.0.1", 1)),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str, expected: Address) -> None:
    assert parse_address(text) == expected


def test_several_addresses_are_separated_by_commas() -> None:
    assert parse_addresses("a:1, b:2,") == [Address("a", 1), Address("b", 2)]


@pytest.mark.parametrize("text", ["", ",", ":9092", "host:port", "host:70000", "host:-1"])
def test_a_wrong_address_is_explained(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_addresses(text)


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
