"""Task queues: the same jobs with a share group and with RabbitMQ."""
