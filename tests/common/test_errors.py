from __future__ import annotations

from barnabas.common.errors import MAX_TEXT, ErrorCode, KafkaError


def test_an_error_that_quotes_a_long_name_still_fits_into_an_answer_and_keeps_its_advice() -> None:
    error = KafkaError(ErrorCode.INVALID_REQUEST, f"group {'x' * 32_767} does not exist: create it first")
    assert len(error.message) < MAX_TEXT + 20
    assert error.message.startswith("group xxx")
    assert error.message.endswith("create it first")
