"""Task queues: the same jobs in a share group and in RabbitMQ."""
