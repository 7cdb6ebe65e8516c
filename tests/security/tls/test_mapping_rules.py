"""ssl.principal.mapping.rules: Kafka's documented examples, and invalid rules."""

from __future__ import annotations

import pytest

from barnabas.security.authn.credentials import SecuritySettingError
from barnabas.security.tls.mapping_rules import MappingRules, NoRuleAppliesError

# The examples of Kafka's documentation, KIP-371 and KAFKA-9066, with the results of SslPrincipalMapper of Apache Kafka
# 4.3.1.
DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("O=Some,CN=Duke.Java", "duke.java"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_documented_rules_give_the_documented_names(name: str, user: str) -> None:
    assert MappingRules.parse(DOCUMENTED).name_of(name) == user


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "CN=alice", "CN=alice"),
        ("", "CN=alice", "CN=alice"),
        ("RULE:^CN=(.*)$/$1/U", "CN=alice", "ALICE"),
        ("RULE:^CN=(.*)$/$1@example/", "CN=alice", "alice@example"),
        (r"RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U", "cn=a,ou=b,dc=c,dc=d", "A@B"),
        (
            r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT",
            r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz",
            r"Tkac\, Adam",
        ),
        (r"RULE:^CN=(.*?)\/(.*)$/$2/", "CN=host/alice", "alice"),
        ("RULE:^CN=(.*)$/$12/", "CN=alice", "alice2"),
        ("RULE:^CN=(.*),O=(.*)$/$2/,RULE:^CN=(.*)$/$1/", "CN=alice", "alice"),
        ("RULE:CN=(.*?)/user-$1/", "CN=alice", "user-alice"),
    ],
)
def test_rules_are_tried_in_order_and_may_change_case(rules: str, name: str, user: str) -> None:
    assert MappingRules.parse(rules).name_of(name) == user


def test_a_name_that_no_rule_applies_to_has_no_user() -> None:
    with pytest.raises(
        NoRuleAppliesError, match=r"no rule of ssl.principal.mapping.rules applies to CN=alice"
    ):
        MappingRules.parse("RULE:^CN=(.*),O=.*$/$1/").name_of("CN=alice")


@pytest.mark.parametrize(
    "rules",
    ["default", "RULE:^CN=(.*)$", "RULE:^CN=(.*)$/$1", "RULE:^CN=(.*)$/$1/X", "DEFAULT/L", "RULE:/DEFAULT"],
)
def test_invalid_rule_is_rejected(rules: str) -> None:
    with pytest.raises(SecuritySettingError, match="has an invalid rule"):
        MappingRules.parse(rules)


@pytest.mark.parametrize("pattern", ["(", "(?=x)", r"(a)\1"])
def test_a_pattern_that_re2_does_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(SecuritySettingError, match="has an invalid pattern"):
        MappingRules.parse(f"RULE:{pattern}/x/")
