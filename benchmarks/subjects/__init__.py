"""Systems under test: brokers and clusters of both kinds, RabbitMQ, Spark, and the cost of their processes."""
