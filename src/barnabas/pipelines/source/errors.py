"""What stops a query, in one sentence that says what to do."""

from __future__ import annotations


class SourceError(Exception):
    """The topic, the brokers or the records are not as the query needs them."""


class DataLossError(SourceError):
    """Records that the query had to read are gone."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. Some data may have been lost: retention may have removed them, or the topic was deleted. "
            "Set the option 'failOnDataLoss' to 'false' to go on with what is there."
        )
