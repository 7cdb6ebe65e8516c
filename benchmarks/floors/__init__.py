"""What this machine and this Python can do at best, with no broker around it."""
