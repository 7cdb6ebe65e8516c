"""What is measured: brokers and clusters of both kinds, RabbitMQ, Spark, and what their processes cost."""
