"""Parts of the producer: record accumulator, senders per partition, transactions."""
