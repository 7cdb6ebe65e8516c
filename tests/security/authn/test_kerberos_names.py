"""User names from Kerberos principals: the examples of Kafka's documentation and tests."""

from __future__ import annotations

import pytest

from barnabas.security.authn.kerberos_names import NoRuleError, parse_rules, short_name

REALM = "REALM.COM"
APPS = ("RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g", "RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT")
CASES = (
    "RULE:[1:$1]/{0}",
    "RULE:[2:$1](Test.*)s/ABC///{0}",
    "RULE:[2:$1](ABC.*)s/ABC/XYZ/g/{0}",
    "RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g/{0}",
    "RULE:[2:$1]/{0}",
    "DEFAULT",
)


def name_of(principal: str, *rules: str) -> str:
    return short_name(principal, parse_rules(rules), REALM)


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("App.service-name/example.com@REALM.COM", "service-name"),
        ("App.service-name@REALM.COM", "service-name"),
        ("user/host@REALM.COM", "user"),
        ("user@REALM.COM", "user"),
        ("user", "user"),
    ],
)
def test_the_first_rule_that_fits_decides(principal: str, name: str) -> None:
    assert name_of(principal, *APPS) == name


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("User@REALM.COM", "user"),
        ("TestABC/host@FOO.COM", "test"),
        ("ABC_User_ABC/host@FOO.COM", "xyz_user_xyz"),
        ("App.SERVICE-name/example.com@REALM.COM", "service-name"),
        ("User/root@REALM.COM", "user"),
    ],
)
def test_rules_make_small_and_capital_letters(principal: str, name: str) -> None:
    assert name_of(principal, *(rule.format("L") for rule in CASES)) == name
    assert name_of(principal, *(rule.format("U") for rule in CASES)) == name.upper()


def test_the_rule_of_the_documentation_cuts_the_realm_off() -> None:
    rules = ("RULE:[1:$1@$0](.*@MYDOMAIN.COM)s/@.*//", "DEFAULT")

    assert name_of("user@MYDOMAIN.COM", *rules) == "user"


@pytest.mark.parametrize(
    "rule",
    [
        "default", "DEFAUL", "DEFAULT/L", "DEFAULT/g", "rule:[1:$1]", "RULE:[1:$1]/L/U", "RULE:[1:$1]/LU",
        "RULE:[1:$1/L", "RULE:[1:$1]/l", "RULE:[2:$1](ABC.*)s/ABC/XYZ/L/g", "RULE:[0:$0]", "RULE:[1:$1]([)s/a/b/",
    ],
)  # fmt: skip
def test_invalid_rule_is_rejected(rule: str) -> None:
    with pytest.raises(ValueError, match=r"RULE|rule"):
        parse_rules([rule])


@pytest.mark.parametrize(
    ("principal", "rules"),
    [
        ("alice@OTHER.COM", ("DEFAULT",)),
        ("alice/admin/x@REALM.COM", ("DEFAULT",)),
        ("alice@REALM.COM", ("RULE:[1:$1@$0]",)),
        ("alice@REALM.COM", ("RULE:[1:$1]s/.*//",)),
        ("alice@REALM.COM", ("RULE:[1:$2]",)),
        ("", ("DEFAULT",)),
    ],
)
def test_principal_without_a_matching_rule_is_anonymous(principal: str, rules: tuple[str, ...]) -> None:
    with pytest.raises(NoRuleError):
        name_of(principal, *rules)
